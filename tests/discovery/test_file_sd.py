from __future__ import annotations

import os

import pytest

from spec_decode_exporter.config.target_settings import Scrape
from spec_decode_exporter.discovery import file_sd
from spec_decode_exporter.discovery.file_sd import FileDiscovery
from spec_decode_exporter.discovery.target_discovery import DiscoveryError


@pytest.fixture
def put(tmp_path):
    """Write a file with an increasing modification time, whatever the resolution of the file system."""
    moment = 1_700_000_000

    def write(name: str, text: str) -> None:
        nonlocal moment
        moment += 10
        path = tmp_path / name
        path.write_text(text)
        os.utime(path, (moment, moment))

    return write


@pytest.fixture
def find(tmp_path):
    """Return a discovery of the files that match a pattern."""
    return lambda pattern: FileDiscovery(tmp_path / pattern, Scrape())


async def test_yaml_and_json_are_read(put, find, urls):
    put("a.yml", "- targets: [a:1, 'b:1']\n  labels: {rack: 07}\n")
    put("b.json", '[{"targets": ["c:1"], "labels": {"rack": "8"}}]')
    yaml, json = await find("a.yml").targets(), await find("b.json").targets()
    assert urls([*yaml, *json]) == ["http://a:1/metrics", "http://b:1/metrics", "http://c:1/metrics"]
    assert [target.labels for target in [*yaml, *json]] == [(("rack", "07"),)] * 2 + [(("rack", "8"),)]


async def test_a_pattern_finds_files_as_they_come_and_go(put, find, urls, tmp_path):
    discovery = find("*.y*ml")
    put("b.yml", "- targets: [b:1]")
    put("a.yaml", "- targets: [a:1]")
    put("c.json", "[]")
    assert urls(await discovery.targets()) == ["http://a:1/metrics", "http://b:1/metrics"]
    (tmp_path / "b.yml").unlink()
    put("d.yml", "- targets: [d:1]")
    assert urls(await discovery.targets()) == ["http://a:1/metrics", "http://d:1/metrics"]


async def test_a_file_that_becomes_invalid_keeps_its_targets_and_the_others_are_updated(put, find, urls):
    discovery = find("*.yml")
    put("a.yml", "- targets: [a:1]")
    put("b.yml", "- targets: [b:1]")
    await discovery.targets()
    put("a.yml", "- targets: [")
    put("b.yml", "- targets: [c:1]")
    for _ in range(2):
        with pytest.raises(DiscoveryError, match=r"a\.yml: line 1 is not YAML") as caught:
            await discovery.targets()
        assert urls(caught.value.targets) == ["http://a:1/metrics", "http://c:1/metrics"]
    put("a.yml", "")
    assert urls(await discovery.targets()) == ["http://c:1/metrics"]


async def test_a_directory_that_cannot_be_listed_leaves_the_targets(find):
    with pytest.raises(DiscoveryError, match="cannot be read: No such file or directory") as caught:
        await find("nowhere/*.yml").targets()
    assert caught.value.targets is None


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", '[\n{"targets": ]', "line 2 is not JSON: Expecting value"),
        ("a.json", '{"targets": ["a:1"]}', "the list must be a list, not a mapping"),
        ("a.json", "5", "the list must be a list, not a single value"),
        ("a.json", "[] 5", "line 1 is not JSON: Extra data"),
        ("a.json", '[\n{"targets": [], "targets": []}]', "line 2 has a key twice"),
        ("a.json", '[{"targets": ["a:1", 5]}]', r"\[0\].targets\[1\] must be a text"),
        ("a.json", '[{"targets": ["a:1"]}, {"labels": {"a": {}}}]', r"\[1\].labels.a must be a text"),
        ("a.yml", "targets: [a:1]", "the list must be a list"),
        ("a.yml", "- {}\n---\n- {}\n", "line 2 is not YAML: there is a second document"),
        ("a.yml", "- targets: [a:1]\n  targets: [b:1]\n", "line 2 is there twice"),
        ("a.yml", "- targets: !x [a:1]\n", "line 1 has the tag"),
        ("a.yml", "- targets: [a:1]\n  lables: {}\n", "did you mean `labels`"),
    ],
)
async def test_an_invalid_file_is_reported_with_its_position(put, find, name, text, message):
    put(name, text)
    with pytest.raises(DiscoveryError, match=message) as caught:
        await find(name).targets()
    assert name in str(caught.value)


async def test_a_file_that_was_never_readable_leaves_the_targets_of_an_earlier_discovery(put, find):
    put("half.yml", "- targets: ['a:1'")
    discovery = find("half.yml")
    for _ in range(2):
        with pytest.raises(DiscoveryError) as caught:
            await discovery.targets()
        assert caught.value.targets is None


async def test_files_that_are_too_large_together_are_rejected_without_reading_them(put, find, monkeypatch):
    monkeypatch.setattr(file_sd, "MAX_PATTERN_BYTES", 2**10)
    monkeypatch.setattr(file_sd, "read_bounded", None)
    put("a.json", " " * 600)
    put("b.json", " " * 600)
    with pytest.raises(DiscoveryError, match=r"its files have more than 1 KiB together") as caught:
        await find("*.json").targets()
    assert caught.value.targets is None


async def test_more_files_than_the_limit_are_rejected(put, find, monkeypatch):
    monkeypatch.setattr(file_sd, "MAX_FILES", 2)
    for name in "abc":
        put(f"{name}.json", "[]")
    with pytest.raises(DiscoveryError, match="matches more than 2 files"):
        await find("*.json").targets()


async def test_a_directory_with_more_entries_than_the_limit_is_not_searched(put, find, monkeypatch):
    monkeypatch.setattr(file_sd, "MAX_ENTRIES", 2)
    for name in "abc":
        put(f"{name}.txt", "")
    with pytest.raises(DiscoveryError, match="has more than 2 entries"):
        await find("*.json").targets()


async def test_files_with_too_many_targets_together_are_rejected(put, find, monkeypatch):
    monkeypatch.setattr(file_sd, "MAX_TARGETS", 2)
    put("a.json", '[{"targets": ["a:1", "a:2"]}]')
    put("b.json", '[{"targets": ["b:1"]}]')
    discovery = find("*.json")
    with pytest.raises(DiscoveryError, match="has more than 2 targets") as caught:
        await discovery.targets()
    assert caught.value.targets is None
    put("b.json", "[]")
    assert len(await discovery.targets()) == 2


async def test_a_pipe_in_place_of_a_file_blocks_nothing(find, tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "a.json")
    # It took the place of a plain file after that was examined.
    monkeypatch.setattr(file_sd, "_stamp", lambda _path: (1, 2, 3))
    with pytest.raises(DiscoveryError, match=r"a\.json: cannot be read: it is not a plain file"):
        await find("a.json").targets()
