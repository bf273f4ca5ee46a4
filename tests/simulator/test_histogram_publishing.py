from __future__ import annotations

import pytest

from spec_decode_exporter.simulator.histogram import STEP_BOUNDS, SimulatedHistogram
from spec_decode_exporter.simulator.histogram_publishing import (
    PUBLISH_SECONDS,
    DelayedPublisher,
    ImmediatePublisher,
)
from spec_decode_exporter.simulator.simulated_request import SimulatedRequest


@pytest.fixture
def histogram():
    return SimulatedHistogram(STEP_BOUNDS)


def request(last_token_at):
    made = SimulatedRequest(0.0, 10, 0, 50, 100, (), 10, [])
    made.last_token_at = last_token_at
    return made


def test_an_immediate_publisher_publishes_every_step_at_once(histogram):
    ImmediatePublisher(histogram).observe(request(5.0), 5.25)
    assert (histogram.count, histogram.total) == (1, 0.25)


def test_a_delayed_publisher_keeps_the_steps_of_a_stream_until_it_ends(histogram):
    late, stream = DelayedPublisher(histogram), request(5.0)
    late.observe(stream, 5.25)
    assert histogram.count == 0
    late.finish(stream)
    assert (histogram.count, histogram.total) == (1, 0.25)


def test_a_delayed_publisher_publishes_a_long_stream_at_intervals(histogram):
    late, stream = DelayedPublisher(histogram), request(5.0)
    late.observe(stream, 5.5)
    stream.last_token_at = 5.5
    late.observe(stream, 5.0 + PUBLISH_SECONDS)
    assert (histogram.count, histogram.total) == (2, PUBLISH_SECONDS)


def test_the_end_of_one_stream_publishes_nothing_of_another(histogram):
    late, ended, other = DelayedPublisher(histogram), request(5.0), request(5.0)
    late.observe(ended, 5.25)
    late.observe(other, 5.25)
    late.finish(ended)
    late.finish(ended)
    assert histogram.count == 1
