"""Numbers and labels, byte for byte as prometheus_client writes them."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.exposition import generate_latest as write_text
from prometheus_client.openmetrics.exposition import ALLOWUTF8

from spec_decode_exporter.metrics.text_values import label_text, number_text

texts = st.text(max_size=12) | st.sampled_from(['"', "\\", "\n", "a\\nb", "{}", "%s", "\x00", "\u202e"])
numbers = (
    st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(2**62), 2**62)
    | st.sampled_from([0.0, -0.0, 999_999.0, 1e6, 1234567.0, 1e15, 1e16, 1e17, 5e-324, 1.7e308])
)


class One:
    """A registry of one family."""

    def __init__(self, family):
        self.family = family

    def collect(self):
        yield self.family


def written(labels, number):
    """Return the line of a sample as prometheus_client writes it."""
    family = Metric("x", "", "gauge")
    family.add_sample("x", labels, number)
    page = write_text(One(family), escaping=ALLOWUTF8).decode()
    return page.removeprefix("# HELP x \n# TYPE x gauge\n")


@given(numbers)
@example(100_000_000_000_000_000)
def test_a_number_is_written_as_go_does(number):
    assert f"x {number_text(number)}\n" == written({}, number)


@given(texts)
def test_a_label_is_escaped(value):
    assert f"x{{{label_text('zone', value)}}} 1.0\n" == written({"zone": value}, 1.0)


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_a_number_that_is_not_finite_is_an_error(number):
    with pytest.raises(ValueError, match="a number is"):
        number_text(number)
