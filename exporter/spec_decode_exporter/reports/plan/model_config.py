"""The words of a config.json, each checked: the file is somebody else's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spec_decode_exporter.reports.plan.model_families import FAMILIES, ModelFamily

_LARGEST: Final = 10**9
"""No width, number of layers or vocabulary is as large."""


class ModelError(Exception):
    """A model cannot be planned with; the text says why, and what to do."""


class Configuration:
    """A config.json of an architecture that is known. ``text_config`` speaks of text."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Read a file's content.

        Raises:
            ModelError: The architecture is none of ``FAMILIES``.
        """
        nested = document.get("text_config")
        self._values = {**document, **nested} if isinstance(nested, dict) else dict(document)
        self.model_type = str(self._values.get("model_type") or "")
        known = FAMILIES.get(self.model_type)
        if known is None:
            what = f"the architecture {self.model_type[:60]!r} is not known here"
            raise ModelError(
                f"{what if self.model_type else 'it has no model_type'}; give the model's number of "
                f"parameters instead, such as 8B (known: {', '.join(FAMILIES)})"
            )
        self.family: ModelFamily = known

    def number(self, key: str, default: int | None = None) -> int:
        """Return a whole number, at least 0.

        Raises:
            ModelError: It is missing, and neither the family nor the caller has a default; or it is none.
        """
        value = self._values.get(key)
        if value is None:
            value = self.family.defaults.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST:
            shown = "is missing" if value is None else f"is {str(value)[:40]!r}, no number that a model has"
            raise ModelError(f"{key} {shown}; give the model's number of parameters instead, such as 8B")
        return value

    def optional(self, key: str) -> int | None:
        """Return a whole number above 0; None where the file has none, or 0."""
        return self.number(key, 0) or None

    def positive(self, key: str, default: int | None = None) -> int:
        """Return a whole number above 0.

        Raises:
            ModelError: It is none.
        """
        value = self.number(key, default)
        if not value:
            raise ModelError(f"{key} is 0; give the model's number of parameters instead, such as 8B")
        return value

    def switch(self, key: str, *, default: bool = False) -> bool:
        """Return whether something is on."""
        value = self._values.get(key)
        return default if value is None else bool(value)

    def entries(self, key: str) -> list[Any]:
        """Return a list; empty where there is none."""
        value = self._values.get(key)
        return value if isinstance(value, list) else []

    def section(self, key: str) -> Mapping[str, Any]:
        """Return a nested object; empty where there is none."""
        value = self._values.get(key)
        return value if isinstance(value, dict) else {}

    def word(self, *keys: str) -> str:
        """Return the first text of some keys; empty where there is none."""
        return next((value for key in keys if isinstance(value := self._values.get(key), str)), "")
