"""The keys of ``poll``. Each description here is what docs/configuration.md says about the key."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from spec_decode_exporter.config.http_settings import Section
from spec_decode_exporter.config.units import format_duration
from spec_decode_exporter.config.values import Duration, Size


class Poll(Section):
    """When and how the servers are asked."""

    interval: Duration = Field(
        default=1.0,
        description="How often a server is asked. At most a third of the shortest window. "
        "It becomes longer by itself where asking costs the server more than `max_duty_cycle`, or the "
        "exporter more than 5 % of a core.",
    )
    histogram_interval: Duration = Field(
        default_factory=lambda poll: max(10.0, poll.get("interval", 0.0)),
        description="How often the buckets of histograms are asked for besides; they are most of the cost of "
        "a page. At least `interval`, and at most a third of the longest window.",
    )
    timeout: Duration = Field(
        default=5.0, description="How long an answer may take, from the connection to its last byte."
    )
    max_duty_cycle: float = Field(
        default=0.01,
        gt=0,
        le=1,
        description="The part of its time that a server may spend on answering the exporter.",
    )
    max_body: Size = Field(
        default=4 * 2**20,
        description="How large an answer may be, after it is unpacked. vLLM sends 55 kB for one engine and "
        "35 kB more for each other: the default holds some 110 engines behind one address.",
    )
    filter: Literal["auto", "off"] = Field(
        default="auto",
        description="`auto` asks for just the samples that are needed where the server can do that, and for "
        "the whole page elsewhere. `off` always asks for the whole page.",
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
