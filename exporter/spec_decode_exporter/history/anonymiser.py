"""Anonymiser of recordings: numbered names in place of those of targets and models."""

from __future__ import annotations

from typing import Any


class Anonymiser:
    """Replaces names; equal names get equal numbers."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}

    def anonymised(self, line: dict[str, Any]) -> dict[str, Any]:
        """Return a line of a recording without the names of its target and its models."""
        engines = [{**each, "model": self._name("model", each["model"])} for each in line["engines"]]
        replaced = {**line, "target": self._name("target", line["target"]), "engines": engines}
        if replaced.get("draft_model"):
            replaced["draft_model"] = self._name("draft-model", replaced["draft_model"])
        return replaced

    def _name(self, kind: str, name: str) -> str:
        """Return the numbered name; an empty name stays empty."""
        if not name:
            return name
        same = sum(known == kind for known, _ in self._numbers)
        return f"{kind}-{self._numbers.setdefault((kind, name), same + 1)}"
