"""The keys of ``poll``. Their descriptions are the text of docs/reference/configuration.md."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from spec_decode_exporter.config.http_settings import Section
from spec_decode_exporter.config.units import format_duration
from spec_decode_exporter.config.values import Duration, Size


class Poll(Section):
    """Polling of the servers."""

    interval: Duration = Field(
        default=1.0,
        description="The time between two polls of a server. At most a third of the shortest window. The "
        "exporter extends it if polling costs the server more than `max_duty_cycle`, or the exporter more "
        "than 5 % of a core.",
    )
    histogram_interval: Duration = Field(
        default_factory=lambda poll: max(10.0, poll.get("interval", 0.0)),
        description="The time between two polls that include histogram buckets, which are most of the cost "
        "of a page. At least `interval`, and at most a third of the longest window.",
    )
    timeout: Duration = Field(
        default=5.0, description="The maximum time of a poll, from the connection to the last byte."
    )
    max_duty_cycle: float = Field(
        default=0.01,
        gt=0,
        le=1,
        description="The maximum share of its time that a server spends on polls of the exporter.",
    )
    max_body: Size = Field(
        default=4 * 2**20,
        description="The maximum size of a page after decompression. vLLM sends 55 kB for one engine and "
        "35 kB more for each further engine: the default is enough for about 110 engines at one address.",
    )
    filter: Literal["auto", "off"] = Field(
        default="auto",
        description="`auto` requests only the samples that are needed if the server supports that, and the "
        "whole page otherwise. `off` always requests the whole page.",
    )

    @field_validator("histogram_interval")
    @classmethod
    def _no_shorter_than_interval(cls, value: float, info: ValidationInfo) -> float:
        interval = info.data.get("interval", value)
        if value < interval:
            raise ValueError(
                f"is shorter than `interval`, {format_duration(interval)}; make it at least that long"
            )
        return value
