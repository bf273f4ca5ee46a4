"""Timeouts of requests: one timer ends those whose deadline has passed."""

from __future__ import annotations

import asyncio

import pytest

from spec_decode_exporter.scrape.http.timeout_sweep import TimeoutSweep


class Timer:
    """Timer of the event loop that the test fires by hand."""

    def __init__(self, moment, call, *arguments):
        self._moment = moment
        self._call = call
        self._arguments = arguments
        self.cancelled = False

    def when(self):
        return self._moment

    def cancel(self):
        self.cancelled = True

    def fire(self):
        assert not self.cancelled
        self._call(*self._arguments)


class Request:
    """Request that notes its end."""

    def __init__(self, expire=lambda: None):
        self.expired = 0
        self._expire = expire

    def expire(self):
        self.expired += 1
        self._expire()


@pytest.fixture
def timers(monkeypatch):
    """Return the timers that were started, in their order."""
    started = []

    class Loop:
        def call_at(self, moment, call, *arguments):
            started.append(Timer(moment, call, *arguments))
            return started[-1]

    monkeypatch.setattr(asyncio, "get_running_loop", Loop)
    return started


def active(timers):
    return [timer.when() for timer in timers if not timer.cancelled]


def test_a_later_request_of_the_same_connection_has_its_own_deadline(timers):
    sweep, request = TimeoutSweep(), Request()
    sweep.add(request, 10.0)
    sweep.remove(request)
    sweep.add(request, 15.0)
    timers[0].fire()
    assert request.expired == 0
    timers[1].fire()
    assert request.expired == 1


def test_an_earlier_deadline_replaces_the_timer(timers):
    sweep, slow, quick = TimeoutSweep(), Request(), Request()
    sweep.add(slow, 10.0)
    sweep.add(quick, 3.0)
    assert active(timers) == [3.0]
    timers[1].fire()
    assert (slow.expired, quick.expired) == (0, 1)
    assert active(timers)[1:] == [10.0]
