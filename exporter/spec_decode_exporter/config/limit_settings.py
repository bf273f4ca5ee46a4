"""Limits of the whole process."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from spec_decode_exporter.config.http_settings import Section

MAX_FLEET_ENGINES: Final = 10_000
"""The highest limit that can be configured: one process cannot serve more in a page."""


class Limits(Section):
    """Limits of the whole process."""

    engines: Annotated[int, Field(ge=1, le=MAX_FLEET_ENGINES)] | None = Field(
        default=None,
        description="The maximum number of engines, of all targets together. A target counts as at least one "
        "engine, an engine with more than 16 draft positions or very long labels as several. Above the "
        "limit, "
        "targets of the configuration come first; the others share the rest evenly. The default depends on "
        "the memory limit of the container, see [kubernetes.md](kubernetes.md#memory): 256 engines at "
        "128 MiB, 2,000 at most.",
    )
