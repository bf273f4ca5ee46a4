"""Garbage collection: rare, and complete."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from spec_decode_exporter.app.service import FULL_EVERY, SETTLED_AFTER, collect_garbage
from tests.conftest import settle


class Cycle:
    """An object that only a collection frees."""

    def __init__(self):
        self.itself = self


@pytest.fixture(autouse=True)
async def fixture_collecting(clock):
    """Collect during the test; afterwards thresholds and frozen objects are as before."""
    thresholds = gc.get_threshold()
    task = asyncio.create_task(collect_garbage(clock))
    await settle()
    yield
    task.cancel()
    gc.unfreeze()
    gc.set_threshold(*thresholds)


async def test_a_removed_object_is_freed_though_it_was_excluded_before(clock):
    cycle = Cycle()
    removed = weakref.ref(cycle)
    await clock.advance(SETTLED_AFTER)
    del cycle
    gc.collect()
    assert removed() is not None
    await clock.advance(FULL_EVERY)
    assert removed() is None
