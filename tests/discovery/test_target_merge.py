"""Pages, names and labels of merged targets, and their shards."""

from __future__ import annotations

import pytest

from spec_decode_exporter.config.labels import MAX_LABEL_VALUE, MAX_LABELS
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.discovery.target_merge import hash_modulus, merge, shard_of


def target(url: str, name: str, discovery: str = "file", **labels: str) -> Target:
    return Target(url, name, tuple(sorted(labels.items())), discovery=discovery)


def test_a_page_found_twice_is_watched_once_under_its_first_name():
    static = target("http://a:80/metrics", "chat", "static", team="x")
    found = target("http://a/metrics", "a:80", "file", team="y", rack="1")
    assert merge([[static], [found]]) == (
        target("http://a:80/metrics", "chat", "static", team="x", rack="1"),
    )


def test_a_page_that_a_list_repeats_without_end_has_bounded_labels_and_those_of_other_lists():
    flood = [
        target("http://a:1/metrics", "a", "http", **{f"l{number}": "x", f"m{number}": "x"})
        for number in range(200)
    ]
    good = target("http://a:1/metrics", "pod", "kubernetes", zone="b")
    ((one,), (other,)) = merge([flood]), merge([flood, [good]])
    assert len(one.labels) == MAX_LABELS + 1
    assert set(other.labels) == {*one.labels, ("zone", "b")}
    assert list(other.labels) == sorted(other.labels)


def test_a_second_page_of_the_same_name_is_called_by_its_address():
    pages = [
        "http://a:1/metrics",
        "http://b:1/metrics",
        "http://b:1/other",
        "http://b:1/other?x=1",
        "http://b:1/other?x=2",
    ]
    names = [one.name for one in merge([[target(url, "n") for url in pages]])]
    assert names == ["n", "b:1", "b:1/other", "b:1/other#2", "b:1/other#3"]


def test_a_name_of_a_long_path_is_no_longer_than_a_label_may_be():
    path = "p" * 2000
    pages = [Target(f"http://b:1/{path}?part={part}", "n") for part in range(20)]
    names = [target.name for target in merge([pages])]
    assert len(set(names)) == 20
    assert max(map(len, names)) <= MAX_LABEL_VALUE
    assert names[3].endswith("p#2")


@pytest.mark.parametrize(
    ("url", "count", "shard"),
    [
        ("http://10.0.0.1:8000/metrics", 1, 0),
        ("http://10.0.0.1:8000/metrics", 1000, 931),
        ("http://10.0.0.1:8000/other", 1000, 931),
        ("http://[fd00::9]:8000/metrics", 1000, 772),
    ],
)
def test_the_shard_of_a_target_is_the_hashmod_of_its_address(url, count, shard):
    assert shard_of(Target(url, "x"), count) == shard


def test_the_hash_is_that_of_prometheus():
    # model/relabel/relabel_test.go of Prometheus: hashmod of "baz" with the modulus 1000
    assert hash_modulus("baz", 1000) == 976
