"""Write samples as lines of the text formats: the bytes of prometheus_client in a quarter of its time.

All formats have the same lines of samples; they differ in the lines above a family only. Text format:
https://prometheus.io/docs/instrumenting/exposition_formats/; OpenMetrics 1.0:
https://prometheus.io/docs/specs/om/open_metrics_spec/.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import isfinite, isnan
from typing import Final

from prometheus_client.samples import Sample

_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_DIGITS_WITHOUT_EXPONENT: Final = 6
"""Digits before the point, up to which Go writes a number without an exponent."""


def sample_lines(samples: Iterable[Sample]) -> str:
    """Write a line for each sample, its labels sorted by name.

    Names must be those of the legacy scheme, as all names of the exporter are. Timestamps, exemplars and
    native histograms are not written.
    """
    return "".join(
        f"{sample.name}{_labels(sample.labels)} {number_text(sample.value)}\n" for sample in samples
    )


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    pairs = [f'{name}="{_escaped(labels[name])}"' for name in sorted(labels)]
    return f"{{{','.join(pairs)}}}"


@lru_cache(maxsize=1024)
def _escaped(value: str) -> str:
    return value.translate(_ESCAPES)


def number_text(number: float) -> str:
    """Write a number as Go does, which uses an exponent from a million on."""
    number = float(number)
    if not isfinite(number):
        return "NaN" if isnan(number) else "+Inf" if number > 0 else "-Inf"
    text = repr(number)
    point = text.find(".")
    if number > 0 and point > _DIGITS_WITHOUT_EXPONENT:
        mantissa = f"{text[0]}.{text[1:point]}{text[point + 1 :]}".rstrip("0.")
        return f"{mantissa}e+{point - 1:02d}"
    return text
