"""Many requests looked at a slice at a time: between slices of a few milliseconds others have their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, TypeVar

from spec_decode_exporter.requests.request_sums import CostOf, Sums, sums
from spec_decode_exporter.requests.stored_requests import RequestRows

Key = TypeVar("Key", bound=Hashable)

SLICE: Final = 500
"""Requests that are added up in one go, which takes 1 ms."""
NOTED: Final = 2000
"""Requests of which the places are noted in one go, which takes as long."""


async def places_by(keys: Iterable[Key | None]) -> dict[Key, list[int]]:
    """Return the ascending places of each key; None is nobody's."""
    places: dict[Key, list[int]] = {}
    for place, key in enumerate(keys):
        if key is not None:
            places.setdefault(key, []).append(place)
        if place % NOTED == NOTED - 1:
            await asyncio.sleep(0)
    return places


async def sums_at(rows: RequestRows, places: Sequence[int], cost_of: CostOf) -> list[Sums]:
    """Return the sums of each slice of the requests at some ascending places, all of one model."""
    found = []
    for first in range(0, len(places), SLICE):
        found.append(sums(rows.at(places[first : first + SLICE]), cost_of))
        await asyncio.sleep(0)
    return found
