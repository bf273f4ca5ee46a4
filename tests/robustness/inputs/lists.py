"""Lists of targets at their bounds, and just beyond them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

from spec_decode_exporter.config.source import MAX_VALUES
from spec_decode_exporter.config.target_settings import HttpDiscovery, Scrape
from spec_decode_exporter.config.types import MAX_FILE_BYTES
from spec_decode_exporter.discovery.lists import (
    MAX_LIST_BYTES,
    MAX_LIST_LABELS,
    MAX_TARGETS,
    FileDiscovery,
    HttpListDiscovery,
)
from spec_decode_exporter.discovery.target import DiscoveryError
from tests.robustness.faults import sends, serving
from tests.robustness.inputs.row import InFile, Row, as_json, filled
from tests.robustness.inputs.server_pages import JSON, answer

_HOSTS: Final = [f"host{place}.test:8000" for place in range(MAX_TARGETS)]
_GROUP_OF_ALL: Final = [
    {"targets": _HOSTS, "labels": {f"label{number:02}": "v" * 1024 for number in range(64)}}
]


def _groups_of_one(labels: int = MAX_LIST_LABELS // MAX_TARGETS) -> list[object]:
    return [
        {"targets": [host], "labels": {f"l{place}": f"{number}-{place}" for place in range(labels)}}
        for number, host in enumerate(_HOSTS)
    ]


def _yaml_groups(groups: list[Any]) -> bytes:
    """Write groups as YAML, which takes JSON for a flow."""
    return "".join(f"- {json.dumps(group)}\n" for group in groups).encode()


async def _http_list(data: bytes) -> object:
    async with serving(sends(answer(data, JSON))) as server:
        return await HttpListDiscovery(HttpDiscovery(url=server.url()), Scrape()).targets()


def _from_file(path: Path) -> object:
    return asyncio.run(FileDiscovery(path, Scrape()).targets())


_JSON_WORST: Final = {
    "one group with every target, 64 labels of 1,024 characters": as_json(_GROUP_OF_ALL),
    "a group for every target, with as many labels as a list may have": as_json(_groups_of_one),
    "groups without anything": as_json(lambda: [{}] * MAX_TARGETS),
    "nothing but spaces": filled(b"[", b" ", b"]"),
    "escapes": as_json(lambda: [{"labels": {f"l{n}": "\0" * 2**11 for n in range(200)}}]),
}

_JSON_BEYOND: Final = {
    "bytes": filled(b"[", b" ", b"]", MAX_LIST_BYTES + 1),
    "groups": as_json(lambda: [{}] * (MAX_TARGETS + 1)),
    "bytes full of lists in a target": filled(b'[{"targets":[[', b"[],", b"[]]]}]"),
    "targets": as_json(lambda: [{"targets": ["a:1"] * (MAX_TARGETS + 1)}]),
    "labels of a group": as_json(lambda: [{"labels": {f"l{n}": "" for n in range(MAX_LIST_LABELS + 1)}}]),
    "labels": as_json(lambda: _groups_of_one(MAX_LIST_LABELS // MAX_TARGETS + 1)),
    "characters of a host": as_json(lambda: [{"targets": ["x" * 2**21]}]),
    "one number": filled(b"[", b"9", b"]"),
    "nesting": filled(b"", b"[", b""),
    "keys that are there twice": filled(b'[{"labels":{', b'"a":"b",', b'"a":"b"}}]'),
}

_YAML_WORST: Final = {
    "one group with every target, 64 labels of 1,024 characters": lambda: _yaml_groups(_GROUP_OF_ALL),
    "groups of one target with five labels": lambda: _yaml_groups(_groups_of_one()[: MAX_VALUES // 17]),
    "groups without anything": lambda: b"- {}\n" * MAX_TARGETS,
    "anchors": lambda: b"".join(b"- &a%d {}\n" % number for number in range(MAX_TARGETS)),
}

_YAML_BEYOND: Final = {
    "bytes": filled(b"# ", b"x", b"", MAX_FILE_BYTES + 1),
    "groups": lambda: b"- {}\n" * (MAX_TARGETS + 1),
    "bytes full of empty lists": filled(b"[", b"[],", b"[]]", MAX_FILE_BYTES),
    "keys that are there twice": filled(b"- {", b"a: b,", b"}", MAX_FILE_BYTES),
}


ROWS: tuple[Row, ...] = (
    Row("http_sd list", _http_list, _JSON_WORST, _JSON_BEYOND, DiscoveryError),
    Row("file_sd list in YAML", InFile(_from_file, "list.yml"), _YAML_WORST, _YAML_BEYOND, DiscoveryError),
)
