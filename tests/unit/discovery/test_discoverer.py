"""All discoveries together: merge, limits of label names, shards."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from unittest.mock import AsyncMock, patch

import pytest

from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.target_settings import (
    Discovery,
    DnsDiscovery,
    HttpDiscovery,
    KubernetesDiscovery,
    Scrape,
    ShardSettings,
    TargetSettings,
)
from spec_decode_exporter.config.types import MAX_LABEL_CHARACTERS, MAX_LABEL_VALUE, MAX_LABELS
from spec_decode_exporter.core.urls import address
from spec_decode_exporter.discovery import discoverer as module
from spec_decode_exporter.discovery.discoverer import (
    Discoverer,
    FleetLabels,
    discoveries,
    hash_modulus,
    merge,
)
from spec_decode_exporter.discovery.lists import TargetDiscovery
from spec_decode_exporter.discovery.target import DiscoveryError, LabelFilter, Target


def target(url: str, name: str, discovery: str = "file", **labels: str) -> Target:
    return Target(url, name, tuple(sorted(labels.items())), discovery=discovery)


def test_all_configured_discoveries_run_in_order_and_those_of_one_name_have_keys_of_their_own(tmp_path):
    pods = {"namespaces": ("x", "y"), "label_selector": "app=vllm", "api_server": "https://a:1/"}
    other_pods = ({"ports": ("9000",)}, {"only_ready": True}, {"api_server": "https://b:1/"})
    ways = Discovery(
        files=(tmp_path / "a.yml",),
        http=(HttpDiscovery(url="http://sd/list"), HttpDiscovery(url="http://sd/list?zone=b")),
        dns=[
            DnsDiscovery(names=("a", "b"), type="A", port=port, refresh_interval=7.0) for port in (8000, 8001)
        ],
        kubernetes=[KubernetesDiscovery(**{**pods, **more}) for more in ({}, *other_pods)],
    )
    found = list(discoveries(ways))
    assert [(way.name, way.refresh) for way in found] == [
        (f"file {tmp_path}/a.yml", 5.0),
        ("http http://sd/list", 60.0),
        ("http http://sd/list?<secret>", 60.0),
        *[("dns A a", 7.0), ("dns A b", 7.0)] * 2,
        *[(f"kubernetes namespace {name} app=vllm", 30.0) for name in "xy"] * 4,
    ]
    assert len({way.key for way in found}) == len(found)


def discovery(name: str, refresh: float, **answer) -> TargetDiscovery:
    """Return a discovery with a result of the test: ``return_value`` or ``side_effect``."""
    found = TargetDiscovery("file", name, Scrape(), refresh)
    found.targets = AsyncMock(**answer)
    return found


A = target("http://a:1/metrics", "a")
B = target("http://b:1/metrics", "b", "dns")
STATIC = target("http://s:1/metrics", "s", "static")


CONFIG = Config(
    targets=(TargetSettings(url=STATIC.url, name="s"),),
    discovery=Discovery(kubernetes=(KubernetesDiscovery(namespaces=("x",), label_selector="app=vllm"),)),
)


@asynccontextmanager
async def running(clock, *ways: TargetDiscovery, config: Config = CONFIG):
    """Run a discoverer; yield it with the published lists of target names."""
    told: list[list[str]] = []
    with patch.object(module, "discoveries", return_value=list(ways)):
        discoverer = Discoverer(config, clock, lambda targets: told.append([one.name for one in targets]))
        task = asyncio.ensure_future(discoverer.run())
        try:
            yield discoverer, told
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("few", [0, 200], ids=["merged in a thread", "merged at once"])
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"side_effect": KeyError("hunter2")}, "unexpected: KeyError"),
        ({"return_value": [target("http://b:0/metrics", "b", "dns")]}, "unexpected: ValueError"),
    ],
    ids=["an internal error", "a list that cannot be merged"],
)
async def test_an_error_in_one_discovery_does_not_affect_the_others(
    clock, log, until, monkeypatch, few, answer, reason
):
    monkeypatch.setattr(module, "_FEW", few)
    bad, sound = discovery("bad", 5.0, **answer), discovery("sound", 5.0, return_value=[A])
    async with running(clock, bad, sound) as (discoverer, told):
        await until(lambda: told and told[-1] == ["s", "a"] and log and clock.asleep == 2)
        await clock.advance(5)
        await until(lambda: [each.targets.await_count for each in (bad, sound)] == [2, 2])
        await until(lambda: clock.asleep == 2)
        assert discoverer.found["bad"] == ()
        assert [(entry["event"], entry["reason"]) for entry in log] == [("discovery_failed", reason)]
        bad.targets = AsyncMock(return_value=[B])
        await clock.advance(5)
        await until(lambda: told[-1] == ["s", "b", "a"])
        counts = {"static": 1, "file": 1, "http": 0, "dns": 1, "kubernetes": 0}
        assert discoverer.counts() == counts
        await until(lambda: log[-1]["event"] == "discovery_recovered")


@pytest.mark.parametrize(("known", "left"), [(None, ["s", "a"]), ((), ["s"]), ((B,), ["s", "b"])])
async def test_a_failure_leaves_the_targets_that_it_does_not_replace(clock, known, left):
    way = discovery("way", 1.0, return_value=[A])
    async with running(clock, way) as (_, told):
        await clock.advance(0)
        way.targets.side_effect = DiscoveryError("failed", known)
        await clock.advance(2)
    assert told[-1] == left


async def test_of_several_exporters_exactly_one_has_each_target_of_any_discovery(clock):
    found = [target(f"http://10.0.0.{number}:8000/metrics", f"pod-{number}") for number in range(20)]
    static = tuple(TargetSettings(url=f"http://static-{number}:1/metrics") for number in range(20))
    shards: list[list[str]] = []
    for index in range(3):
        config = Config(targets=static, discovery=Discovery(shard=ShardSettings(index=index, count=3)))
        way = discovery("file", 5.0, return_value=found)
        async with running(clock, way, config=config) as (_, told):
            await clock.advance(0)
        shards.append(told[-1])
    every = [*(f"static-{number}:1" for number in range(20)), *(one.name for one in found)]
    assert sorted(name for names in shards for name in names) == sorted(every)
    assert all(5 < len(names) < 25 for names in shards)


def test_a_page_found_twice_is_watched_once_under_its_first_name():
    static = target("http://a:80/metrics", "chat", "static", team="x")
    found = target("http://a/metrics", "a:80", "file", team="y", rack="1")
    together = target("http://a:80/metrics", "chat", "static", team="x", rack="1")
    assert merge([[static], [found]], LabelFilter("all")) == [together]


def test_a_page_that_many_lists_label_has_no_more_labels_than_the_limits(log):
    lists = [[target("http://a:1/metrics", "a", "http", **{f"l{number}": "x"})] for number in range(200)]
    own = target("http://a:1/metrics", "a", "static", own="x" * MAX_LABEL_VALUE)
    long = target("http://a:1/metrics", "a", "http", **{name: name * 1000 for name in "ab"})
    (flooded,) = merge(lists, LabelFilter("all"))
    (first,) = merge([[own], [long]], LabelFilter("all"))
    assert len(flooded.labels) == MAX_LABELS
    assert set(dict(first.labels)) == {"own", "a"}
    assert {entry["label"] for entry in log} == {f"l{MAX_LABELS}", "b"}


def test_a_second_page_of_the_same_name_is_called_by_its_address():
    pages = ["a:1/metrics", "b:1/metrics", "b:1/other", "b:1/other?x=1", "b:1/other?x=2"]
    found = [target(f"http://{page}", "n") for page in pages]
    names = [one.name for one in merge([found], LabelFilter("all"))]
    assert names == ["n", "b:1", "b:1/other", "b:1/other#2", "b:1/other#3"]
    long = [Target(f"http://b:1/{'p' * 2000}?part={part}", "n") for part in range(20)]
    names = [one.name for one in merge([long], LabelFilter("all"))]
    assert len(set(names)) == 20
    assert max(map(len, names)) <= MAX_LABEL_VALUE
    assert names[3].endswith("p#2")


@pytest.mark.parametrize(
    ("text", "count", "shard"),
    [
        # model/relabel/relabel_test.go of Prometheus: hashmod of "baz" with the modulus 1000
        ("baz", 1000, 976),
        (address("http://10.0.0.1:8000/metrics"), 1, 0),
        (address("http://10.0.0.1:8000/metrics"), 1000, 931),
        (address("http://10.0.0.1:8000/other"), 1000, 931),
        (address("http://[fd00::9]:8000/metrics"), 1000, 772),
    ],
)
def test_the_shard_of_a_target_is_the_hashmod_of_its_address(text, count, shard):
    assert hash_modulus(text, count) == shard


def limited(labels: FleetLabels, *targets: Target) -> list[dict[str, str]]:
    return [dict(one.labels) for one in labels.limited(targets)]


def test_label_names_in_use_stay_and_those_without_targets_make_room_for_new_ones(log):
    labels = FleetLabels([], LabelFilter("all"))
    used = [target(f"http://a:{number}", "t", **{f"m{number}": "x"}) for number in range(MAX_LABELS)]
    other = target("http://a:100", "t", a="x")
    assert limited(labels, *used)[-1] == {f"m{MAX_LABELS - 1}": "x"}
    found = limited(labels, other, *used)
    assert (found[0], found[-1]) == ({}, {f"m{MAX_LABELS - 1}": "x"})
    assert [(entry["discovery"], entry["label"]) for entry in log] == [("all", "a")]
    assert limited(labels, other, *used[1:])[0] == {"a": "x"}


def test_configured_names_stay_however_many_others_a_list_invents(log):
    labels = FleetLabels(["team", "namespace", "pod"], LabelFilter("all"))
    others = [target(f"http://a:{number}", "t", **{f"a{number:04}": "x"}) for number in range(2, 200)]
    static = target("http://a:1", "t", "static", team="x")
    pod = target("http://a:500", "t", "kubernetes", namespace="n", pod="p")
    found = limited(labels, static, *others, pod)
    assert (found[0], found[-1]) == ({"team": "x"}, {"namespace": "n", "pod": "p"})
    assert len({name for names in found for name in names}) == MAX_LABELS
    long = [target(f"http://a:{number}", "t", **{f"{number:n>100}": "x"}) for number in range(20)]
    assert sum(map(bool, limited(FleetLabels([], LabelFilter("all")), *long))) == 10


# Labels of one target.


def test_labels_beyond_the_limits_of_a_target_are_dropped_with_one_warning(log):
    labels = LabelFilter("http a")
    many = labels.kept({f"l{number:03}": "v" for number in range(MAX_LABELS + 9)})
    long = labels.kept({"a": "x" * MAX_LABEL_VALUE, "b": "x" * MAX_LABEL_VALUE, "c": "short"})
    assert (len(many), many[-1][0]) == (MAX_LABELS, f"l{MAX_LABELS - 1:03}")
    assert [name for name, _ in long] == ["a", "c"]
    assert [(entry["discovery"], entry["label"]) for entry in log] == [("http a", f"l{MAX_LABELS:03}")]
    beside = (("own", "x" * (MAX_LABEL_CHARACTERS - len("own") - 4)),)
    assert labels.fitting((("a", "xxxx"), ("b", "xxx"), ("c", "")), beside) == (("b", "xxx"),)


def test_a_list_with_ever_new_labels_does_not_fill_the_log(log):
    labels = LabelFilter("http a")
    for number in range(500):
        labels.kept({f"{number}-x": "y"})
    assert len(log) == 100
    LabelFilter("http b").kept({"1" * 10**6: "y"})
    assert log[-1]["label"] == "1" * 256
