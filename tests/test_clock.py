from __future__ import annotations

import time

from exporter.clock import SystemClock


async def test_the_system_clock_sleeps_no_shorter_than_it_is_asked_to():
    clock = SystemClock()
    moment = clock.monotonic() + 0.01
    await clock.sleep_until(moment)
    assert clock.monotonic() >= moment - 1e-3


async def test_a_moment_that_has_passed_is_not_waited_for():
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep_until(before - 60)
    assert clock.monotonic() - before < 30


def test_the_wall_clock_is_the_unix_time():
    assert abs(SystemClock().wall() - time.time()) < 60
