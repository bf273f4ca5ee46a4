"""Write label values and numbers as the text formats demand, byte for byte as prometheus_client does.

Text format: https://prometheus.io/docs/instrumenting/exposition_formats/; OpenMetrics 1.0:
https://prometheus.io/docs/specs/om/open_metrics_spec/.
"""

from __future__ import annotations

from math import isfinite
from typing import Final

_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_DIGITS_WITHOUT_EXPONENT: Final = 6
"""Digits before the point, up to which Go writes a number without an exponent."""
_WITHOUT_EXPONENT: Final = 10.0**_DIGITS_WITHOUT_EXPONENT
"""Smallest positive number that Go writes with an exponent."""


def label_text(name: str, value: str) -> str:
    """Write a label with its value escaped; its name is written as it is."""
    return f'{name}="{value.translate(_ESCAPES)}"'


def number_text(number: float) -> str:
    """Write a finite number as Go does.

    Raises:
        ValueError: The number is not finite.
        OverflowError: It is an integer that no float can represent.
    """
    number = float(number)
    text = repr(number)
    if 0 <= number < _WITHOUT_EXPONENT:
        return text
    if not isfinite(number):
        raise ValueError(f"a number is {number}")
    point = text.find(".")
    if number > 0 and point > _DIGITS_WITHOUT_EXPONENT:
        mantissa = f"{text[0]}.{text[1:point]}{text[point + 1 :]}".rstrip("0.")
        return f"{mantissa}e+{point - 1:02d}"
    return text
