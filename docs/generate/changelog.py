"""Make this version's section in CHANGELOG.md from ``docs/changes/``: ``python -m docs.generate.changelog``.

A change adds a file of its own, so two branches never change the same line.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from docs.generate.links import CHECKOUT
from spec_decode_exporter import __version__

CHANGELOG: Final = CHECKOUT / "CHANGELOG.md"
FRAGMENTS: Final = CHECKOUT / "docs" / "changes"
_LONGEST: Final = 150
_FIRST_SECTION: Final = re.compile(r"^(?=## )|\Z", re.MULTILINE)


def mistake(fragment: str) -> str | None:
    """Return what is wrong with a fragment, which is a list of Markdown; None if it is valid."""
    lines = fragment.splitlines()
    if not lines or not lines[0].startswith("- ") or not fragment.endswith("\n"):
        return "does not begin with an item of a list, or its last line has no end"
    wrong = [line for line in lines if not re.match(r"- \S|  \S", line) or len(line) > _LONGEST]
    return f"not a line of an item, or too long: {wrong[0]}" if wrong else None


def with_section(changelog: str, fragments: list[str], version: str, date: str) -> str:
    """Return the changelog with a new section in front of the others."""
    section = f"## {version} ({date})\n\n{''.join(fragments)}\n"
    before, *after = _FIRST_SECTION.split(changelog, maxsplit=1)
    return f"{before.rstrip()}\n\n{section}{''.join(after)}".rstrip() + "\n"


def main() -> None:
    """Write the section, and delete the fragments."""
    paths = sorted(FRAGMENTS.glob("*.md"))
    if not paths:
        raise SystemExit(f"{FRAGMENTS.relative_to(CHECKOUT)} has no change")
    fragments = [path.read_text(encoding="utf-8") for path in paths]
    text = CHANGELOG.read_text(encoding="utf-8")
    date = datetime.now(UTC).date().isoformat()
    CHANGELOG.write_text(with_section(text, fragments, __version__, date), encoding="utf-8")
    for path in paths:
        path.unlink()


if __name__ == "__main__":
    main()
