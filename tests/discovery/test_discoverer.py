from __future__ import annotations

import asyncio

import pytest

from spec_decode_exporter.config.load import load
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.target_settings import (
    Discovery,
    DnsDiscovery,
    HttpDiscovery,
    KubernetesDiscovery,
    ShardSettings,
    TargetSettings,
)
from spec_decode_exporter.core.urls import Url
from spec_decode_exporter.discovery import discoverer as module
from spec_decode_exporter.discovery import target_merge
from spec_decode_exporter.discovery.discoverer import Discoverer, discoveries
from spec_decode_exporter.discovery.target import Target


def target(url: str, name: str, discovery: str = "file", **labels: str) -> Target:
    return Target(url, name, tuple(sorted(labels.items())), discovery=discovery)


def test_all_configured_discoveries_run_in_order(tmp_path):
    ways = Discovery(
        files=(tmp_path / "a.yml",),
        http=(HttpDiscovery(url="http://sd/list"),),
        dns=(DnsDiscovery(names=("a", "b"), type="A", port=1, refresh_interval=7.0),),
        kubernetes=(KubernetesDiscovery(namespaces=("x", "y"), label_selector="app=vllm"),),
    )
    assert [(way.name, way.refresh) for way in discoveries(Config(discovery=ways))] == [
        (f"file {tmp_path}/a.yml", 5.0),
        ("http http://sd/list", 60.0),
        ("dns A a", 7.0),
        ("dns A b", 7.0),
        ("kubernetes namespace x app=vllm", 1.0),
        ("kubernetes namespace y app=vllm", 1.0),
    ]


class Way:
    """Discovery with the results of the test."""

    def __init__(self, name: str, refresh: float, answer) -> None:
        self.name, self.key = name, name
        self.refresh, self.answer, self.asked = refresh, answer, 0

    async def targets(self):
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


A = target("http://a:1/metrics", "a")
B = target("http://b:1/metrics", "b", "dns")
STATIC = target("http://s:1/metrics", "s", "static")


@pytest.fixture
async def start(clock, monkeypatch):
    """Start a discoverer; return it with the published lists of target names."""
    tasks = []

    def begin(*ways: Way, known=None):
        monkeypatch.setattr(module, "discoveries", lambda _config: list(ways))
        told: list[list[str]] = []
        config = Config(targets=(TargetSettings(url=STATIC.url, name="s"),))
        tell = lambda targets: told.append([one.name for one in targets])  # noqa: E731
        discoverer = Discoverer(config, clock, tell, known or {})
        tasks.append(asyncio.ensure_future(discoverer.run()))
        return discoverer, told

    yield begin
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_an_error_in_one_discovery_does_not_end_the_others(start, clock, log):
    broken, sound = Way("broken", 5.0, KeyError("hunter2")), Way("sound", 5.0, [A])
    _, told = start(broken, sound)
    await clock.advance(11)
    assert (broken.asked, sound.asked) == (3, 3)
    assert told[-1] == ["s", "a"]
    assert [entry["reason"] for entry in log] == ["unexpected: KeyError"]


async def test_a_list_that_cannot_be_merged_does_not_affect_the_others(start, clock, log, monkeypatch):
    bad, sound = Way("bad", 5.0, [B]), Way("sound", 5.0, [A])

    class Defect(Url):
        @classmethod
        def of(cls, text):
            if text == B.url:
                raise KeyError(text)
            return Url.of(text)

    monkeypatch.setattr(target_merge, "Url", Defect)
    discoverer, told = start(bad, sound)
    await clock.advance(11)
    assert told[-1] == ["s", "a"]
    assert discoverer.found["bad"] == ()
    assert [(entry["event"], entry["reason"]) for entry in log] == [
        ("discovery_failed", "unexpected: KeyError")
    ]
    monkeypatch.setattr(target_merge, "Url", Url)
    await clock.advance(5)
    assert told[-1] == ["s", "b", "a"]
    assert log[-1]["event"] == "discovery_recovered"


def test_discoveries_that_differ_only_in_a_port_or_a_query_are_separate(tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text(
        "discovery:\n"
        "  dns:\n"
        "    - {names: [a.example], type: A, port: 8000}\n"
        "    - {names: [a.example], type: A, port: 8001}\n"
        "  http:\n"
        "    - {url: 'http://sd/list?zone=a'}\n"
        "    - {url: 'http://sd/list?zone=b'}\n"
    )
    ways = discoveries(load(file, environ={}))
    assert len({way.key for way in ways}) == len(ways) == 4


async def test_of_several_exporters_exactly_one_has_each_target_of_any_discovery(clock, monkeypatch):
    found = [target(f"http://10.0.0.{number}:8000/metrics", f"pod-{number}") for number in range(20)]
    monkeypatch.setattr(module, "discoveries", lambda _config: [Way("file", 5.0, found)])
    static = tuple(TargetSettings(url=f"http://static-{number}:1/metrics") for number in range(20))
    told: list[list[str]] = []
    for index in range(3):
        shard = ShardSettings(index=index, count=3)
        config = Config(targets=static, discovery=Discovery(shard=shard))
        lists = []
        task = asyncio.ensure_future(Discoverer(config, clock, lists.append).run())
        await clock.advance(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        told.append([one.name for one in lists[-1]])
    every = [*(f"static-{number}:1" for number in range(20)), *(one.name for one in found)]
    assert sorted(name for names in told for name in names) == sorted(every)
    assert all(5 < len(names) < 25 for names in told)
