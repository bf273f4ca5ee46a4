"""Lines of samples, byte for byte as prometheus_client writes them in every format."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.exposition import generate_latest as write_text
from prometheus_client.openmetrics.exposition import ALLOWUTF8
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics

from spec_decode_exporter.metrics.sample_lines import number_text, sample_lines

NAMES = ("target", "model_name", "engine", "window", "le", "zone", "a_1")

texts = st.text(max_size=12) | st.sampled_from(['"', "\\", "\n", "a\\nb", "{}", "%s", "\x00", "\u202e"])
numbers = (
    st.floats()
    | st.integers(-(2**62), 2**62)
    | st.sampled_from([0.0, -0.0, 999_999.0, 1e6, 1234567.0, 1e15, 1e16, 1e17, 5e-324, 1.7e308])
    | st.sampled_from([math.inf, -math.inf, math.nan])
)
labels = st.dictionaries(st.sampled_from(NAMES), texts)


class One:
    """A registry of one family."""

    def __init__(self, family):
        self.family = family

    def collect(self):
        yield self.family


def without_comments(page):
    return "".join(line for line in page.decode().splitlines(keepends=True) if not line.startswith("# "))


@pytest.mark.parametrize("write", [write_text, write_openmetrics])
@given(samples=st.lists(st.tuples(labels, numbers), max_size=4))
def test_samples_are_the_bytes_of_prometheus_client(write, samples):
    family = Metric("spec_decode_x", "Of drafts.", "gauge")
    for own, number in samples:
        family.add_sample("spec_decode_x", own, number)
    page = write(One(family), escaping=ALLOWUTF8)
    expected = page[page.index(b"gauge\n") + len(b"gauge\n") :].removesuffix(b"# EOF\n")
    assert sample_lines(family.samples).encode() == expected


@given(numbers)
@example(100_000_000_000_000_000)
def test_a_number_is_written_as_go_does(number):
    family = Metric("x", "", "gauge")
    family.add_sample("x", {}, number)
    last = without_comments(write_text(One(family), escaping=ALLOWUTF8))
    assert f"x {number_text(number)}\n" == last
