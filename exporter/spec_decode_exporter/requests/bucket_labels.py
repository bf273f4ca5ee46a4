"""Labels of buckets of temperatures and prompt lengths, and their texts."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

_ABOVE: Final = ">"
_BETWEEN: Final = "-"


def bucket_labels(bounds: Sequence[float]) -> list[str]:
    """Return the labels of the buckets below ascending upper ``bounds``, and of the one above them all.

    A bound belongs to the bucket below it: ``0.3-0.7`` contains 0.7 and not 0.3. A first bound of 0 is a
    bucket of its own, ``0``. The last label is ``>1``. No label has a space.
    """
    texts = [format(Decimal(str(bound)), "f").removesuffix(".0") for bound in bounds]
    below = [
        text if bound == 0 else f"{lower}{_BETWEEN}{text}"
        for bound, lower, text in zip(bounds, ["0", *texts], texts, strict=False)
    ]
    return [*below, f"{_ABOVE}{texts[-1]}"]


def bucket_text(label: str) -> str:
    """Return the text of a label: ``0.3-0.7`` is "up to 0.7", ``>1`` "above 1"; other texts stay."""
    if label.startswith(_ABOVE):
        return f"above {label.removeprefix(_ABOVE)}"
    lower, _, upper = label.rpartition(_BETWEEN)
    return f"up to {upper}" if lower else label
