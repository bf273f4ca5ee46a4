"""Files served under ``/docs/``, by their paths there.

The build of the wheel runs this file, so it imports the standard library alone.
"""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Final

INDEX: Final = "README.md"
FILES: Final = "files/"
"""Folder of the files to download."""
PACKAGED: Final = Path(__file__).parent / "packaged"
"""Folder of a wheel that holds the files. An editable installation serves those of its checkout."""
_CHECKOUT: Final = Path(__file__).parents[4]
_MIDDLEWARE: Final = Path(__file__).parents[2] / "vllm_middleware" / "spec_decode_requests.py"
"""The file that vLLM loads: a module of this package, so a wheel needs no copy."""

_PATTERNS: Final = (
    ("docs", "", ("README.md", "guide/*.md", "reference/*.md", "explanation/*.md", "runbooks/*.md")),
    ("config/prometheus", FILES, ("*.yml", "alerts/*.yml", "rules/*.yml")),
    ("config/alertmanager", FILES, ("*.yml",)),
    ("grafana/dashboards", f"{FILES}dashboards/", ("*.json",)),
)
"""Folder of the repository, its path below ``/docs/``, and its served files."""


def in_checkout(checkout: Path = _CHECKOUT) -> dict[str, Path]:
    """Return each served file of a checkout, by its path below ``/docs/``."""
    return {
        f"{target}{path.relative_to(checkout / folder).as_posix()}": path
        for folder, target, patterns in _PATTERNS
        for pattern in patterns
        for path in sorted((checkout / folder).glob(pattern))
    }


def served() -> dict[str, Path]:
    """Return each served file, by its path below ``/docs/``."""
    return {**_documents(), f"{FILES}{_MIDDLEWARE.name}": _MIDDLEWARE}


def _documents() -> dict[str, Path]:
    if PACKAGED.is_dir():
        paths = sorted(path for path in PACKAGED.rglob("*") if path.is_file())
        return {path.relative_to(PACKAGED).as_posix(): path for path in paths}
    return in_checkout()


def linked(href: str, path: str) -> str:
    """Return the path below ``/docs/`` to which a document's relative link would lead.

    Args:
        href: Target of the link, relative to the document in the repository, without an anchor.
        path: Path of the document below ``/docs/``.
    """
    goal = posixpath.normpath(posixpath.join("docs", posixpath.dirname(path), href))
    for folder, target, _ in _PATTERNS:
        if goal.startswith(f"{folder}/"):
            return f"{target}{goal.removeprefix(f'{folder}/')}"
    return goal
