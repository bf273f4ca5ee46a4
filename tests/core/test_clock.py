from __future__ import annotations

import runpy
import time

import pytest

from spec_decode_exporter.core import clock as module
from spec_decode_exporter.core.clock import SystemClock


async def test_the_system_clock_sleeps_at_least_until_the_moment():
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


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no such clock")
def test_a_clock_that_includes_suspend_is_used_if_the_system_has_one(monkeypatch):
    asked = []
    monkeypatch.setattr(time, "clock_gettime", lambda which: asked.append(which) or 7.0)
    assert SystemClock().monotonic() == 7.0
    assert asked == [time.CLOCK_BOOTTIME]


def test_other_systems_use_the_monotonic_clock(monkeypatch):
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    elsewhere = runpy.run_path(module.__file__)["SystemClock"]()
    asked = []
    monkeypatch.setattr(time, "clock_gettime", lambda which: asked.append(which) or 7.0)
    assert elsewhere.monotonic() == 7.0
    assert asked == [time.CLOCK_MONOTONIC]
