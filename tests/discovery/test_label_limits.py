"""Limits of discovered labels: of one target, and of all targets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from spec_decode_exporter.config.labels import (
    MAX_LABEL_CHARACTERS,
    MAX_LABEL_NAME,
    MAX_LABEL_VALUE,
    MAX_LABELS,
    label_problem,
    value_problem,
)
from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.discovery.label_limits import MAX_NAME_CHARACTERS, FleetLabels, LabelFilter
from spec_decode_exporter.discovery.target import Target


def target(number: int, discovery: str = "http", **labels: str) -> Target:
    return Target(
        f"http://a:{number}/metrics", f"t{number}", tuple(sorted(labels.items())), discovery=discovery
    )


def limited(labels: FleetLabels, *targets: Target) -> list[dict[str, str]]:
    return [dict(one.labels) for one in finish(labels.limited(targets))]


def size(labels: dict[str, str]) -> int:
    return sum(len(name) + len(value) for name, value in labels.items())


def test_the_longest_name_and_value_are_kept_and_longer_ones_dropped(log):
    labels = LabelFilter("http a")
    name, value = "n" * MAX_LABEL_NAME, "v" * MAX_LABEL_VALUE
    assert labels.kept({name: value, name + "n": "x", "a": value + "v"}) == ((name, value),)
    assert [(entry["event"], entry["discovery"], entry["label"][:2]) for entry in log] == [
        ("discovered_label_dropped", "http a", "nn"),
        ("discovered_label_dropped", "http a", "a"),
    ]


def test_unprintable_labels_are_dropped_without_repeating_them(log):
    texts = ("\0", "\n", "\x1b[2J", "\u202e", "\u2028", "\ud800", "\x7f")
    labels = {f"l{number}": f"a{text}" for number, text in enumerate(texts)}
    assert LabelFilter("http a").kept(labels) == ()
    assert len(log) == len(texts)
    assert all(entry["reason"].isprintable() for entry in log)


def test_of_too_many_labels_the_first_by_name_are_kept_with_one_warning(log):
    labels = LabelFilter("http a")
    given_ = {f"l{number:03}": "x" for number in reversed(range(MAX_LABELS + 50))}
    for _ in range(3):
        assert [name for name, _ in labels.kept(given_)] == [f"l{number:03}" for number in range(MAX_LABELS)]
    assert [entry["label"] for entry in log] == [f"l{MAX_LABELS:03}"]
    assert "beyond the 64 labels" in log[0]["reason"]


@given(st.dictionaries(st.text(max_size=5) | st.sampled_from(["a", "job", "le", "__x"]), st.text(max_size=5)))
def test_any_labels_give_labels_within_the_limits(labels):
    with capture_logs() as logs:
        kept = LabelFilter("x").kept(labels)
    assert kept == tuple(sorted(kept))
    assert all(label_problem(name) is None and value_problem(value) is None for name, value in kept)
    assert len(kept) + len(logs) == len(labels)


def test_label_names_of_all_targets_beyond_the_limit_are_dropped_with_one_warning(log):
    labels = FleetLabels([], [])
    found = limited(labels, *(target(number, **{f"l{number:04}": "x"}) for number in range(1, 1000)))
    assert len({name for one in found for name in one}) == MAX_LABELS
    assert found[0] == {"l0001": "x"}
    assert [(entry["discovery"], entry["label"]) for entry in log] == [("all", f"l{MAX_LABELS + 1:04}")]
    limited(labels, *(target(number, **{f"m{number:04}": "x"}) for number in range(1, 1000)))
    assert len(log) == 1


def test_label_names_have_a_limit_of_characters_in_total(log):
    names = [f"l{number}".ljust(MAX_LABEL_NAME, "n") for number in range(MAX_LABELS)]
    found = limited(FleetLabels([], ["namespace"]), target(1, **dict.fromkeys(names, "x"), namespace="n"))
    assert len(found[0]) == MAX_NAME_CHARACTERS // MAX_LABEL_NAME + 1
    assert found[0]["namespace"] == "n"
    assert len(log) == 1


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


def test_names_in_use_stay_when_an_earlier_list_invents_others(log):
    labels = FleetLabels([], [])
    good = target(500, "dns", zone="b")
    assert limited(labels, good) == [{"zone": "b"}]
    flood = [target(number, "file", **{f"a{number:04}": "x"}) for number in range(200)]
    assert limited(labels, *flood, good)[-1] == {"zone": "b"}
    assert limited(labels, *flood)[MAX_LABELS - 1] != {}


def test_a_page_that_is_configured_keeps_its_labels_and_gets_no_more_than_a_target_may_have(log):
    own = {f"own{number:02}": "x" for number in range(MAX_LABELS - 1)}
    static = target(1, "static", **own)
    labels = FleetLabels([static], ["b", "c"])
    (found,) = limited(labels, target(1, "static", **own, b="1", c="2"))
    assert found == {**own, "b": "1"}
    assert [entry["label"] for entry in log] == ["c"]


def test_of_labels_that_are_too_long_together_the_shortest_are_kept_with_one_warning(log):
    labels = LabelFilter("kubernetes x")
    long = {f"l{number:02}": "x" * MAX_LABEL_VALUE for number in range(MAX_LABELS - 2)}
    for _ in range(3):
        kept = labels.kept({**long, "namespace": "inference", "pod": "p" * 100})
        assert dict(kept).keys() == {"l00", "namespace", "pod"}
        assert kept == tuple(sorted(kept))
    assert [entry["label"] for entry in log] == ["l01"]
    assert size(dict(kept)) <= MAX_LABEL_CHARACTERS


def test_labels_at_the_character_limit_are_kept_and_longer_ones_are_not(log):
    fitting = {"a": "x" * 1000, "b": "x" * 1000, "c": "x" * (MAX_LABEL_CHARACTERS - 2003)}
    assert size(fitting) == MAX_LABEL_CHARACTERS
    assert dict(LabelFilter("x").kept(fitting)) == fitting
    assert len(LabelFilter("x").kept({**fitting, "c": fitting["c"] + "x"})) == 2
    assert len(log) == 1


def test_a_page_that_several_lists_label_has_no_longer_labels_than_that_of_one(log):
    own = {"own": "x" * MAX_LABEL_VALUE}
    given_ = {name: name * 1000 for name in "abcd"}
    (found,) = limited(FleetLabels([target(1, "static", **own)], []), target(1, "static", **own, **given_))
    assert found.keys() == {"own", "a", "b"}
    assert [entry["label"] for entry in log] == ["c"]


def test_targets_within_the_limits_are_the_same_objects():
    targets = tuple(target(number, zone="b") for number in range(200))
    found = finish(FleetLabels([], []).limited(targets))
    assert all(one is other for one, other in zip(found, targets, strict=True))
