"""Lines of a metric, byte for byte as prometheus_client writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric as Family
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import ALLOWUTF8

from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.metrics.line_writer import MAX_TEMPLATES, LineWriter, ViewLabels
from spec_decode_exporter.metrics.metric import Metric, MetricKind

NAMES = ("action", "arm", "engine", "kind", "model_name", "position", "target", "window", "zone")

texts = st.text(max_size=6) | st.sampled_from(['"', "\\", "\n", "a\\nb", "{}", "%s", "100 %", "%%"])
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.none()


class One:
    """A registry of one family."""

    def __init__(self, family):
        self.family = family

    def collect(self):
        yield self.family


def metric(labels, kind=MetricKind.GAUGE):
    return Metric("spec_decode_x", kind, Group.PAY, "Of drafts.", lambda view: view, labels=tuple(labels))


def lines(rows, views, values):
    writer = LineWriter(rows, tuple(sorted(views[0])))
    return "".join("".join(writer.lines(ViewLabels(view), values)) for view in views)


def samples_of(page):
    return "".join(
        line for line in page.decode().splitlines(keepends=True) if line.startswith("spec_decode_x")
    )


@given(st.data())
def test_lines_are_the_bytes_of_prometheus_client(data):
    """Labels of views and of the metric in every order, values with any character, any finite number."""
    names = data.draw(st.lists(st.sampled_from(NAMES), unique=True))
    own, of_view = names[: len(names) // 2], names[len(names) // 2 :]
    views = data.draw(st.lists(st.fixed_dictionaries(dict.fromkeys(of_view, texts)), min_size=1, max_size=3))
    values = data.draw(st.lists(st.tuples(st.tuples(*(texts for _ in own)), numbers), max_size=4))
    family = Family("spec_decode_x", "Of drafts.", "gauge")
    for view in views:
        for texts_, number in values:
            if number is not None:
                family.add_sample("spec_decode_x", {**view, **dict(zip(own, texts_, strict=True))}, number)
    expected = generate_latest(One(family), escaping=ALLOWUTF8).partition(b" gauge\n")[2]
    assert lines(metric(own), views, values).encode() == expected


@pytest.mark.parametrize("values", [(), ("a", "b")])
def test_values_that_are_not_those_of_the_labels_are_an_error(values):
    with pytest.raises(ValueError, match="zip"):
        lines(metric(["kind"]), [{"target": "t"}], [(values, 1.0)])


def test_texts_that_come_and_go_are_not_kept_for_ever():
    writer = LineWriter(metric(["user"]), ("target",))
    view = ViewLabels({"target": "t"})
    for page in range(3):
        for user in range(MAX_TEMPLATES):
            assert writer.lines(view, [((f"{page}-{user}",), 1.0)])
    assert len(writer._templates) <= MAX_TEMPLATES + 1
