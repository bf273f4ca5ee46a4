"""Source of a baseline: the history of a server, from the time before speculation was enabled."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from spec_decode_exporter.config.http_settings import HttpSettings, Section
from spec_decode_exporter.config.label_matchers import label_matchers
from spec_decode_exporter.config.values import ApiAddress, Duration

MIN_LOOKBACK: Final = 3600.0
MAX_LOOKBACK: Final = 90 * 86_400.0
"""Longest time to look back, in seconds: an older baseline is forgotten."""


def _lookback(seconds: float) -> float:
    if not MIN_LOOKBACK <= seconds <= MAX_LOOKBACK:
        raise ValueError("must be 1h to 90d")
    return seconds


class PrometheusSettings(HttpSettings):
    """A Prometheus with the counters of the servers, or VictoriaMetrics, Thanos or Mimir.

    The HTTP keys are for its queries.
    """

    url: ApiAddress = Field(
        description="Its URL, http or https, with the prefix of its proxy if there is one."
    )
    match: Annotated[str, AfterValidator(label_matchers)] = Field(
        default="",
        description='Label matchers of the series, such as `job="vllm"`; by default all. A server of them '
        "is a target if its label `instance` is the `host:port` or the `name` of the target, or else if the "
        "labels that both have are equal. One server alone is that of one target alone.",
    )
    lookback: Annotated[Duration, AfterValidator(_lookback)] = Field(
        default=14 * 86_400.0,
        description="The time to search for a period without speculation, `1h` to `90d`.",
    )


class BaselineSettings(Section):
    """The baseline: how fast a server is without speculation.

    The exporter learns it while a server runs without speculation. A history has that time, too.
    """

    prometheus: PrometheusSettings = Field(
        description="The history. The exporter reads it at its start and once a day. The newest period "
        "without drafts counts, from the history or learned."
    )
