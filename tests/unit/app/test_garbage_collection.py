"""Garbage collection: rare, and complete."""

import asyncio
import gc
import weakref

from spec_decode_exporter.app.service import FULL_EVERY, SETTLED_AFTER, collect_garbage
from spec_decode_exporter.core.tasks import cancel
from tests.conftest import settle


class Cycle:
    """An object that only a collection frees."""

    def __init__(self):
        self.itself = self


async def test_a_removed_object_is_freed_though_it_was_excluded_before(clock):
    thresholds, cycle = gc.get_threshold(), Cycle()
    removed, task = weakref.ref(cycle), asyncio.create_task(collect_garbage(clock))
    try:
        await settle()
        await clock.advance(SETTLED_AFTER)
        del cycle
        gc.collect()
        assert removed() is not None
        await clock.advance(FULL_EVERY)
        assert removed() is None
    finally:
        await cancel([task])
        gc.unfreeze()
        gc.set_threshold(*thresholds)
