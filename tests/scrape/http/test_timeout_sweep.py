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


def test_requests_end_at_their_deadline_by_one_timer(timers):
    sweep, requests = TimeoutSweep(), [Request() for _ in range(3)]
    for request, deadline in zip(requests, (10.0, 10.0, 11.0), strict=True):
        sweep.add(request, deadline)
    assert active(timers) == [10.0]
    timers[0].fire()
    assert [request.expired for request in requests] == [1, 1, 0]
    timers[1].fire()
    assert [request.expired for request in requests] == [1, 1, 1]
    assert [timer.when() for timer in timers] == [10.0, 11.0]


def test_a_request_that_ended_in_time_does_not_expire(timers):
    sweep, request = TimeoutSweep(), Request()
    sweep.add(request, 10.0)
    sweep.remove(request)
    timers[0].fire()
    assert request.expired == 0
    assert len(timers) == 1


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


def test_many_requests_in_time_start_few_timers(timers):
    sweep = TimeoutSweep()
    for second in range(100):
        if timers and timers[-1].when() <= second:
            timers[-1].fire()
        requests = [Request() for _ in range(50)]
        for request in requests:
            sweep.add(request, second + 5.0)
        for request in requests:
            sweep.remove(request)
    assert len(timers) <= 100 / 5 + 1


def test_a_request_that_expires_may_remove_itself_and_send_another(timers):
    sweep = TimeoutSweep()
    second = Request()
    first = Request(lambda: (sweep.remove(first), sweep.add(second, 20.0)))
    sweep.add(first, 10.0)
    timers[0].fire()
    timers[1].fire()
    assert (first.expired, second.expired) == (1, 1)
