"""Decode a JSON document as a whole, for files that are read once; its values are counted before."""

from __future__ import annotations

import json
from typing import Any

_BEGINNINGS = (b",", b"[", b"{")
"""Each value but the first follows one of them, so there are at most as many values as of these."""


class TooManyValuesError(ValueError):
    """A document may have more values than the limit."""


def check_values(content: bytes, most_values: int) -> None:
    """Check the number of values, counted generously: as if no comma or bracket were in a text.

    Raises:
        TooManyValuesError: There may be more than ``most_values``.
    """
    if sum(map(content.count, _BEGINNINGS)) > most_values:
        raise TooManyValuesError(f"it has more than {most_values} values")


def decode(content: bytes, most_values: int) -> Any:  # noqa: ANN401  any JSON
    """Return the content of a document. An empty object takes 64 bytes and two characters.

    Raises:
        TooManyValuesError: It may have more than ``most_values``.
        ValueError: It is not JSON, or nested too deeply.
    """
    check_values(content, most_values)
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
