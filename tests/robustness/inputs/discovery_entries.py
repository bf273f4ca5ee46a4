"""Untrusted entries of discoveries, and labels of all sources."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from structlog.testing import capture_logs

from spec_decode_exporter.config.target_settings import Scrape
from spec_decode_exporter.config.types import (
    MAX_LABEL_CHARACTERS,
    MAX_LABEL_VALUE,
    MAX_LABELS,
)
from spec_decode_exporter.core.numbers import MAX_TEXT
from spec_decode_exporter.core.urls import MAX_PATH, MAX_PORT
from spec_decode_exporter.discovery.lists import (
    MAX_LIST_LABELS,
    TargetDiscovery,
    json_groups,
)
from spec_decode_exporter.discovery.target import DiscoveryError, Target
from spec_decode_exporter.scrape.errors import PollError
from spec_decode_exporter.scrape.sample import MAX_ENGINES, MAX_NAMES_TOTAL
from tests.robustness.inputs.row import Make, RejectedError, Row, as_json, text
from tests.robustness.inputs.server_pages import read_page

_NOT_PRINTABLE: Final = ("\0", "\n", "\x1b[2J", "\u202e", "\ud800")


def _listed(group: Mapping[str, Any]) -> Sequence[Target]:
    """Return the targets of a group; a dropped label is a rejection."""
    listing = TargetDiscovery("http", "http x", Scrape(), 60.0)
    with capture_logs() as logs:
        found = listing.targets_of(json_groups(json.dumps([group]).encode()))
    if logs:
        raise RejectedError(str(logs[0]["reason"]))
    return found


async def _list_address(data: bytes) -> object:
    return _listed({"targets": [json.loads(data)]})


async def _list_labels(data: bytes) -> object:
    return _listed({"targets": ["host.test:8000"], "labels": json.loads(data)})


def _labels(number: int, value: str = "x" * MAX_LABEL_VALUE, prefix: str = "l") -> dict[str, str]:
    return {f"{prefix}{count:05}": value for count in range(number)}


def _engines(number: int, length: int, name: str = "") -> Make:
    """Return a page of engines, each of a model with a name of this length."""
    names = [name or f"{n:03}".ljust(length, "m") for n in range(number)]
    lines = [f'vllm:generation_tokens_total{{model_name="{each}",engine="0"}} 1\n' for each in names]
    return text("".join(lines))


_FITTING = "x" * (MAX_LABEL_CHARACTERS // MAX_LABELS - len("l00000"))
_PARAMETERS = {f"__param_{number:03}": "" for number in range(MAX_PATH // len("000=&"))}
_LONG_HOST = ".".join(["a" * 63] * 3 + ["a" * 61])

ROWS: tuple[Row, ...] = (
    Row(
        "address of a list entry",
        _list_address,
        rejects=(DiscoveryError, RejectedError),
        worst={
            "the longest name": as_json(f"{_LONG_HOST}:{MAX_PORT}"),
            "an IPv6 address": as_json(f"[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:{MAX_PORT}"),
        },
        beyond={
            "a longer name": as_json(f"{_LONG_HOST}a.a:1"),
            "a port beyond the highest": as_json(f"host.test:{MAX_PORT + 1}"),
        },
    ),
    Row(
        "`__scheme__`, `__metrics_path__` and `__param_*` of a list entry",
        _list_labels,
        rejects=(DiscoveryError, RejectedError),
        worst={
            "the longest path": as_json({"__metrics_path__": "/" + "m" * (MAX_PATH - 1)}),
            "the most parameters": as_json(_PARAMETERS),
            "the longest parameter": as_json({"__param_x": "x" * (MAX_PATH - 2)}),
        },
        beyond={
            "a longer path": as_json({"__metrics_path__": "/" + "m" * MAX_PATH}),
            "one more parameter": as_json({**_PARAMETERS, "__param_more": ""}),
            "a longer parameter": as_json({"__param_x": "x" * (MAX_PATH - 1)}),
        },
    ),
    Row(
        "labels of a list entry",
        _list_labels,
        rejects=(DiscoveryError, RejectedError),
        worst={
            "the most of the longest": as_json(_labels(MAX_LABELS, _FITTING)),
            "the longest value": as_json({"zone": "x" * MAX_LABEL_VALUE}),
            "the longest names": as_json(_labels(MAX_LABEL_CHARACTERS // MAX_TEXT, "", "l" * (MAX_TEXT - 5))),
            "labels for the service discovery alone": as_json(_labels(MAX_LIST_LABELS, "x", "__meta_")),
            "the longest name and method": as_json(
                {"target": "t" * MAX_LABEL_VALUE, "method": "m" * MAX_LABEL_VALUE}
            ),
        },
        beyond={
            "a longer value": as_json({"zone": "x" * (MAX_LABEL_VALUE + 1)}),
            "a longer name": as_json({"n" * (MAX_TEXT + 1): "x"}),
            "longer labels together": as_json(_labels(MAX_LABELS, _FITTING + "x")),
            "one more label": as_json(_labels(MAX_LABELS + 1, "")),
            "a longer name of the target": as_json({"target": "x" * (MAX_LABEL_VALUE + 1)}),
            "a longer method": as_json({"method": "x" * (MAX_LABEL_VALUE + 1)}),
            **{f"a value with {bad!r}": as_json({"zone": f"a{bad}"}) for bad in _NOT_PRINTABLE},
        },
    ),
    Row(
        "names of models and engines on a page",
        read_page,
        rejects=PollError,
        worst={
            "the longest names": _engines(MAX_NAMES_TOTAL // MAX_LABEL_VALUE, MAX_LABEL_VALUE - 1),
            "the most engines": _engines(MAX_ENGINES, MAX_NAMES_TOTAL // MAX_ENGINES - 1),
            "names with terminal escapes and a zero byte": _engines(1, 1, "a\0\x1b[2J\u202e"),
        },
        beyond={
            "a longer name": _engines(1, MAX_LABEL_VALUE + 1),
            "one more engine": _engines(MAX_ENGINES + 1, 3),
            "longer names together": _engines(MAX_NAMES_TOTAL // MAX_LABEL_VALUE, MAX_LABEL_VALUE),
        },
    ),
)
