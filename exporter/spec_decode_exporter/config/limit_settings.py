"""Limits of the whole process, whatever discovery and the servers offer."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from spec_decode_exporter.config.http_settings import Section

MOST_ENGINES_OF_A_FLEET: Final = 10_000
"""The largest limit that can be configured: one process cannot serve more in a page."""


class Limits(Section):
    """Limits of the whole process, whatever discovery and the servers offer."""

    engines: Annotated[int, Field(ge=1, le=MOST_ENGINES_OF_A_FLEET)] | None = Field(
        default=None,
        description="The number of engines that are watched, of all targets together. A target counts as "
        "one engine at least, an engine with more than 16 draft positions or very long labels as several. "
        "Beyond it, targets from the configuration come first; the remaining places are shared evenly. "
        "Without a value it follows from the memory limit of the container, "
        "see [kubernetes.md](kubernetes.md#memory): 256 engines at 128 MiB, 2,000 at most.",
    )
