from __future__ import annotations

import pytest

from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.requests.request_labels import TemperatureBuckets


@pytest.fixture(name="temperatures")
def temperatures_fixture():
    return TemperatureBuckets(RequestSettings().temperatures)


@pytest.mark.parametrize(
    ("temperature", "label"),
    [
        (None, "unknown"),
        (0.0, "0"),
        (0.0001, "0-0.3"),
        (0.3, "0-0.3"),
        (0.31, "0.3-0.7"),
        (1.0, "0.7-1"),
        (1.01, ">1"),
        (1e9, ">1"),
    ],
)
def test_a_bound_belongs_to_the_bucket_below_it(temperatures, temperature, label):
    assert temperatures.label(temperature) == label
