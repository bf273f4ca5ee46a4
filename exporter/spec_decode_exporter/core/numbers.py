"""Bounds of numbers and texts from outside: files, answers of servers, requests.

Python's JSON also reads ``NaN``, ``1e999`` and integers of thousands of digits. They raise far from where
they enter, or stay in sums for ever. So they are absent (None) or refused where they enter.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from pydantic import Field

MAX_UNIX: Final = 253_402_300_799.0  # last second of the year 9999, the last one that a date can have
MAX_INTEGER: Final = 2**63 - 1  # greatest integer: that of a 64-bit counter with a sign
MAX_NUMBER: Final = 1e100  # greatest other number: products of three are finite
MAX_TEXT: Final = 256
"""Characters of an untrusted text that are kept, or shown of a longer one: a name, a value, an error."""
MAX_NAMED: Final = 3  # members of a longer list that one sentence names

UnixTime = Annotated[float, Field(ge=0, le=MAX_UNIX, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=1e10, allow_inf_nan=False)]
"""A persisted time: up to 300 years, where a float still resolves microseconds."""
Amount = Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)]
"""A persisted sum of 64-bit counters, or of squares of positions. All that is computed with it is finite."""
Product = Annotated[float, Field(ge=0, le=MAX_NUMBER, allow_inf_nan=False)]
"""A persisted sum of products or of squares of such sums."""

_BEGINNINGS: Final = (b",", b"[", b"{")
"""Each value of a JSON document but the first follows one; those in texts count too."""


class TooManyValuesError(ValueError):
    """A document may have more values than the limit."""


def decode(content: bytes, max_values: int) -> Any:  # noqa: ANN401  any JSON
    """Return the content of a JSON document; a number beyond the bounds is None.

    Raises:
        TooManyValuesError: It may have more than ``max_values``; an empty object takes 64 bytes.
        ValueError: It is not JSON, or nested too deeply.
    """
    if sum(map(content.count, _BEGINNINGS)) > max_values:
        raise TooManyValuesError(f"it has more than {max_values} values")
    try:
        return json.loads(content, parse_float=_float, parse_int=_integer, parse_constant=_absent)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _float(text: str) -> float | None:
    value = float(text)
    return value if abs(value) <= MAX_NUMBER else None


def _integer(text: str) -> int | None:
    value = int(text) if len(text) <= len(str(-MAX_INTEGER)) else MAX_INTEGER + 1
    return value if -MAX_INTEGER <= value <= MAX_INTEGER else None


def _absent(_constant: str) -> None:
    """Return None for ``NaN`` and ``Infinity``, as in the ``time_step_limit`` of some models."""
