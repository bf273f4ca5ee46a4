from __future__ import annotations

import pytest

from spec_decode_exporter.simulator.histogram import STEP_BOUNDS, SimulatedHistogram
from spec_decode_exporter.simulator.histogram_publishing import (
    PUBLISH_SECONDS,
    DelayedPublisher,
)
from spec_decode_exporter.simulator.simulated_request import SimulatedRequest


@pytest.fixture
def histogram():
    return SimulatedHistogram(STEP_BOUNDS)


def request(last_token_at):
    made = SimulatedRequest(0.0, 10, 0, 50, 100, (), 10, [])
    made.last_token_at = last_token_at
    return made


def test_a_delayed_publisher_publishes_a_long_stream_at_intervals(histogram):
    late, stream = DelayedPublisher(histogram), request(5.0)
    late.observe(stream, 5.5)
    stream.last_token_at = 5.5
    late.observe(stream, 5.0 + PUBLISH_SECONDS)
    assert (histogram.count, histogram.total) == (2, PUBLISH_SECONDS)
