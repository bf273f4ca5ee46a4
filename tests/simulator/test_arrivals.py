from __future__ import annotations

import math
from random import Random

import pytest

from spec_decode_exporter.simulator.arrivals import Arrivals
from spec_decode_exporter.simulator.scenario import Load


def arrivals(load, index=0, engines=1):
    made = Arrivals(Random(3), index, engines)
    made.change(load, 0.0)
    return made


def test_clients_keep_as_many_requests_in_the_engine_as_there_are_clients():
    closed = arrivals(Load(concurrency=5))
    assert closed.due(7.0, present=2) == [7.0] * 3
    assert closed.due(8.0, present=5) == []


def test_fewer_clients_send_no_request_until_enough_are_complete():
    closed = arrivals(Load(concurrency=5))
    closed.change(Load(concurrency=1), 10.0)
    assert closed.due(10.0, present=5) == []


def test_all_clients_are_distributed_over_the_engines():
    shares = [len(arrivals(Load(concurrency=10), index, 4).due(0.0, present=0)) for index in range(4)]
    assert sorted(shares) == [2, 2, 3, 3]


def test_requests_arrive_at_the_configured_rate_in_order_and_once():
    open_ones = arrivals(Load(rate=8), engines=2)
    first, second = open_ones.due(500.0, 0), open_ones.due(1000.0, 0)
    assert len(first) + len(second) == pytest.approx(4000, rel=0.06)
    assert first + second == sorted(first + second)
    assert first[-1] <= 500 < second[0]


def test_without_a_rate_there_are_no_poisson_arrivals():
    assert arrivals(Load(rate=0)).next_at == math.inf
