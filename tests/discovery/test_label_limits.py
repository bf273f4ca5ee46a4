"""Limits of discovered labels: of one target, and of all targets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from spec_decode_exporter.config.labels import MAX_LABEL_VALUE, MAX_LABELS, label_problem, value_problem
from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.discovery.label_limits import FleetLabels, LabelFilter
from spec_decode_exporter.discovery.target import Target


def target(number: int, discovery: str = "http", **labels: str) -> Target:
    return Target(
        f"http://a:{number}/metrics", f"t{number}", tuple(sorted(labels.items())), discovery=discovery
    )


def limited(labels: FleetLabels, *targets: Target) -> list[dict[str, str]]:
    return [dict(one.labels) for one in finish(labels.limited(targets))]


@given(st.dictionaries(st.text(max_size=5) | st.sampled_from(["a", "job", "le", "__x"]), st.text(max_size=5)))
def test_any_labels_give_labels_within_the_limits(labels):
    with capture_logs() as logs:
        kept = LabelFilter("x").kept(labels)
    assert kept == tuple(sorted(kept))
    assert all(label_problem(name) is None and value_problem(value) is None for name, value in kept)
    assert len(kept) + len(logs) == len(labels)


def test_a_name_without_targets_is_evicted():
    labels = FleetLabels([], [])
    limited(labels, *(target(number, **{f"a{number}": "x"}) for number in range(MAX_LABELS)))
    assert limited(labels, target(1, b="x")) == [{"b": "x"}]


def test_configured_names_stay_however_many_others_a_list_invents(log):
    static = target(1, "static", team="x")
    labels = FleetLabels([static], ["namespace", "pod"])
    others = [target(number, **{f"a{number:04}": "x"}) for number in range(2, 200)]
    pod = target(500, "kubernetes", namespace="n", pod="p")
    found = limited(labels, static, *others, pod)
    assert (found[0], found[-1]) == ({"team": "x"}, {"namespace": "n", "pod": "p"})


def test_a_page_that_several_lists_label_has_no_longer_labels_than_that_of_one(log):
    own = {"own": "x" * MAX_LABEL_VALUE}
    given_ = {name: name * 1000 for name in "abcd"}
    (found,) = limited(FleetLabels([target(1, "static", **own)], []), target(1, "static", **own, **given_))
    assert found.keys() == {"own", "a", "b"}
    assert [entry["label"] for entry in log] == ["c"]
