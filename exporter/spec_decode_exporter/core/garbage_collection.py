"""Garbage collection of a process that keeps many objects and makes few cycles.

Reference counts free nearly everything, removed targets too. What is left are cycles of errors and of closed
connections. A full collection reads every object: 0.6 s of processor time with a thousand engines, in which
no poll is handled. By Python's thresholds, the snapshots and evaluations that live for some seconds would
cause one now and then. So objects that stay are excluded, young ones are collected in larger numbers, and
full collections are rare.
"""

from __future__ import annotations

import gc
from typing import Final

from spec_decode_exporter.core.clock import Clock

YOUNG_OBJECTS: Final = 10_000
"""New objects that cause a collection of the young ones; about 1 MB of garbage waits for it."""
YOUNG_COLLECTIONS: Final = 10
"""Collections of young objects that cause one of those which survived the last."""
SETTLED_AFTER: Final = 60.0
"""Seconds until the first targets have all their objects."""
FULL_EVERY: Final = 600.0
"""Seconds between full collections."""

_NEVER: Final = 1_000_000


async def collect_for_ever(clock: Clock) -> None:
    """Collect all garbage now and then; call it when the process has started."""
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS, _NEVER)
    _exclude_existing()
    await clock.sleep_until(clock.monotonic() + SETTLED_AFTER)
    _exclude_existing()
    while True:
        await clock.sleep_until(clock.monotonic() + FULL_EVERY)
        gc.unfreeze()
        _exclude_existing()


def _exclude_existing() -> None:
    """Collect the garbage, and exclude all other objects from later collections."""
    gc.collect()
    gc.freeze()
