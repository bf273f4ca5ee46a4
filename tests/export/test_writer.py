"""Lines of the page, byte for byte as prometheus_client writes them."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import Metric as Family
from prometheus_client.exposition import generate_latest as write_text
from prometheus_client.openmetrics.exposition import ALLOWUTF8
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics

from exporter.config.schema import Group
from exporter.export.metric import Kind, Metric
from exporter.export.writer import Labels, lines, number_text, openmetrics_head, text_head

NAMES = ("target", "model_name", "engine", "team", "zone")
OWN = (("window",), (), ("position", "window"), ("window", "position"), ("a", "zz", "m"))

texts = st.text(max_size=12) | st.sampled_from(
    ["%s", "%", "%%d", '"', "\\", "\n", "a\\nb", "{}", "\ud7ff", "\x00"]
)
numbers = (
    st.floats()
    | st.integers(-(2**62), 2**62)
    | st.sampled_from(
        [
            0.0,
            -0.0,
            999_999.0,
            1e6,
            1234567.0,
            1e15,
            1e16,
            1e17,
            5e-324,
            1.7e308,
            math.inf,
            -math.inf,
            math.nan,
        ]
    )
)


class _One:
    def __init__(self, family):
        self.family = family

    def collect(self):
        yield self.family


def metric(kind=Kind.GAUGE, labels=(), help_="Of drafts."):
    name = "spec_decode_x_total" if kind is Kind.COUNTER else "spec_decode_x"
    return Metric(name, kind, Group.COUNTERS, help_, lambda _: [], labels)


def oracle(metric, labels, values):
    family = Family(metric.family, metric.help, metric.kind)
    for own, number in values:
        if number is not None:
            family.add_sample(metric.name, {**labels, **dict(zip(metric.labels, own, strict=True))}, number)
    text = write_text(_One(family), escaping=ALLOWUTF8)
    openmetrics = write_openmetrics(_One(family), escaping=ALLOWUTF8)
    return text.decode(), openmetrics.decode()


@given(
    st.sampled_from([Kind.GAUGE, Kind.COUNTER]),
    st.dictionaries(st.sampled_from(NAMES), texts),
    st.sampled_from(OWN).flatmap(
        lambda own: st.tuples(
            st.just(own),
            st.lists(st.tuples(st.tuples(*(texts for _ in own)), numbers | st.none()), max_size=4),
        )
    ),
    texts,
)
def test_samples_and_heads_are_the_bytes_of_prometheus_client(kind, labels, own_and_values, help_):
    own, values = own_and_values
    row = metric(kind, own, help_)
    text, openmetrics = oracle(row, labels, values)
    written = "".join(lines(row, Labels(labels), values))
    assert text_head(row) + written == text
    assert openmetrics_head(row) + written + "# EOF\n" == openmetrics


@given(st.dictionaries(st.sampled_from(NAMES), texts), texts, numbers)
def test_a_histogram_is_the_bytes_of_prometheus_client(labels, model, number):
    row = metric(Kind.HISTOGRAM, ("model",))
    values = [(("_bucket", "+Inf", model), number), (("_count", "", model), 2), (("_sum", "", model), 0.5)]
    family = Family(row.family, row.help, row.kind)
    family.add_sample("spec_decode_x_bucket", {**labels, "model": model, "le": "+Inf"}, number)
    family.add_sample("spec_decode_x_count", {**labels, "model": model}, 2)
    family.add_sample("spec_decode_x_sum", {**labels, "model": model}, 0.5)
    expected = write_text(_One(family), escaping=ALLOWUTF8).decode()
    assert text_head(row) + "".join(lines(row, Labels(labels), values)) == expected


@given(numbers)
@example(100_000_000_000_000_000)
def test_a_number_is_written_as_go_does(number):
    family = Family("x", "", "gauge")
    family.add_sample("x", {}, number)
    last = write_text(_One(family), escaping=ALLOWUTF8).decode().splitlines()[-1]
    assert f"x {number_text(number)}" == last


def test_labels_are_built_once_for_each_combination():
    labels = Labels({"target": "a"})
    assert labels.template(("window",)) is labels.template(("window",))
    assert labels.template(("window",)) == '{target="a",window="%s"}'


@pytest.mark.parametrize("own", [(), ("window",)])
def test_a_value_that_is_not_known_has_no_line(own):
    assert list(lines(metric(labels=own), Labels({}), [(("30s",) * len(own), None)])) == []
