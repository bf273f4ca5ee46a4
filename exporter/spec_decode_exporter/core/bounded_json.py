"""Decode a JSON document as a whole, after a check of the number of its values."""

from __future__ import annotations

import json
from typing import Any

_BEGINNINGS = (b",", b"[", b"{")
"""Every value except the first follows one of them, so their number limits that of the values."""


class TooManyValuesError(ValueError):
    """A document may have more values than the limit."""


def check_values(content: bytes, max_values: int) -> None:
    """Check an upper bound of the number of values, which counts commas and brackets in texts too.

    Raises:
        TooManyValuesError: There may be more than ``max_values``.
    """
    if sum(map(content.count, _BEGINNINGS)) > max_values:
        raise TooManyValuesError(f"it has more than {max_values} values")


def decode(content: bytes, max_values: int) -> Any:  # noqa: ANN401  any JSON
    """Return the content of a document. An empty object of two characters takes 64 bytes.

    Raises:
        TooManyValuesError: It may have more than ``max_values``.
        ValueError: It is not JSON, or nested too deeply.
    """
    check_values(content, max_values)
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
