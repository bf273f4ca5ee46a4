"""Build hook: put the served documentation into the wheel."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PACKAGE = "spec_decode_exporter/web"


class ServedDocumentation(BuildHookInterface):
    """Adds each file that the exporter serves. An editable installation serves those of its checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files to those of the package, below their folders in the repository."""
        if version == "editable":
            return
        root = Path(self.root)
        for folder, _, patterns in _served(root):
            for path in (path for pattern in patterns for path in (root / folder).glob(pattern)):
                target = path.relative_to(root).as_posix()
                build_data["force_include"][str(path)] = f"{_PACKAGE}/packaged/{target}"


def _served(root: Path) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Return the table SERVED of the exporter, whose dependencies a build does not have."""
    module = ast.parse((root / f"exporter/{_PACKAGE}/documentation.py").read_text("utf-8"))
    (table,) = (
        node.value
        for node in module.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "SERVED" and node.value
    )
    served: tuple[tuple[str, str, tuple[str, ...]], ...] = ast.literal_eval(table)
    return served
