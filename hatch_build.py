"""Build hook: put the served documentation into the wheel."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FOLDER = "spec_decode_exporter/web/documentation"


class ServedDocumentation(BuildHookInterface):
    """Adds each file that the exporter serves. An editable installation serves those of its checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files to those of the package."""
        if version == "editable":
            return
        in_checkout = runpy.run_path(f"{self.root}/exporter/{_FOLDER}/documents.py")["in_checkout"]
        for name, path in in_checkout(Path(self.root)).items():
            build_data["force_include"][str(path)] = f"{_FOLDER}/packaged/{name}"
