"""Requests: what the exporter takes of single requests, and how many kinds of them it tells apart."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from exporter.config.http_settings import Section
from exporter.config.values import NotEmpty


def _ascending(bounds: tuple[float, ...]) -> tuple[float, ...]:
    if list(bounds) != sorted(set(bounds)):
        raise ValueError("do not ascend; write each bound once, the lowest first")
    return bounds


Bound = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


class RequestSettings(Section):
    """Requests that are sent to `/api/v1/requests`; see [requests.md](requests.md)."""

    ingest: bool = Field(
        default=False,
        description="Whether requests are taken. Whoever may open the exporter's pages may then send them.",
    )
    temperatures: Annotated[tuple[Bound, ...], NotEmpty, AfterValidator(_ascending)] = Field(
        default=(0.0, 0.3, 0.7, 1.0),
        description="Upper bounds of the temperature buckets. Each is told apart in the label `temperature`.",
        max_length=12,
    )
    models: Annotated[int, Field(ge=1, le=200)] = Field(
        default=20, description="The most models told apart, by requests; the others are `other`."
    )
    types: Annotated[int, Field(ge=1, le=200)] = Field(
        default=10, description="The most request types told apart, by requests; the others are `other`."
    )
    groups: Annotated[int, Field(ge=1, le=2_000)] = Field(
        default=60,
        description="The most combinations of model, type and temperature told apart, by requests. Each is "
        "about 60 series; the others are counted under the type and temperature `other` of their model.",
    )
    keep: Annotated[int, Field(ge=100, le=1_000_000)] = Field(
        default=20_000,
        description="The most requests kept for the windows, of 200 bytes or so each; the oldest go first.",
    )
    rate: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=2_000, description="The most requests taken a second; those above it are counted and let go."
    )
