from __future__ import annotations

import pytest

from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.requests.request_labels import TemperatureBuckets, temperature_labels


@pytest.fixture(name="temperatures")
def temperatures_fixture():
    return TemperatureBuckets(RequestSettings().temperatures)


@pytest.mark.parametrize(
    ("temperature", "label"),
    [
        (None, "unknown"),
        (0.0, "0"),
        (0.0001, "to 0.3"),
        (0.3, "to 0.3"),
        (0.31, "to 0.7"),
        (1.0, "to 1"),
        (1.01, "above 1"),
        (1e9, "above 1"),
    ],
)
def test_a_bound_belongs_to_the_bucket_below_it(temperatures, temperature, label):
    assert temperatures.label(temperature) == label


def test_buckets_that_do_not_begin_with_greedy_decoding_have_no_label_of_it():
    assert temperature_labels((0.5, 1.25)) == ["to 0.5", "to 1.25", "above 1.25"]
