"""Untrusted entries of discoveries, and labels of all sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
from spec_decode_exporter.discovery.target import DiscoveryError
from spec_decode_exporter.scrape.errors import PollError
from spec_decode_exporter.scrape.sample import MAX_ENGINES, MAX_NAMES_TOTAL
from tests.robustness.inputs.row import Make, RejectedError, Row, as_json
from tests.robustness.inputs.server_pages import read_page

_NOT_PRINTABLE: Final = ("\0", "\n", "\x1b[2J", "\u202e", "\ud800")


async def _read_list(data: bytes) -> object:
    """Return the targets of a list; a dropped label is a rejection."""
    listing = TargetDiscovery("http", "http x", Scrape(), 60.0)
    with capture_logs() as logs:
        found = listing.targets_of(json_groups(data))
    if logs:
        raise RejectedError(str(logs[0]["reason"]))
    return found


def _entry(labels: Mapping[str, str], address: str = "host.test:8000") -> Make:
    """Return a list of one target."""
    return as_json([{"targets": [address], "labels": labels}])


def _labels(number: int, value: str = "x" * MAX_LABEL_VALUE, prefix: str = "l") -> dict[str, str]:
    return {f"{prefix}{count:05}": value for count in range(number)}


def _engines(number: int, length: int, name: str = "") -> Make:
    """Return a page of engines, each of a model with a name of this length."""
    names = [name or f"{n:03}".ljust(length, "m") for n in range(number)]
    lines = [f'vllm:generation_tokens_total{{model_name="{each}",engine="0"}} 1\n' for each in names]
    return "".join(lines).encode


_FITTING = "x" * (MAX_LABEL_CHARACTERS // MAX_LABELS - len("l00000"))
_PARAMETERS = {f"__param_{number:03}": "" for number in range(MAX_PATH // len("000=&"))}
_LONG_HOST = ".".join(["a" * 63] * 3 + ["a" * 61])

ROWS: tuple[Row, ...] = (
    Row(
        "address of a list entry",
        _read_list,
        rejects=(DiscoveryError, RejectedError),
        worst={
            "the longest name": _entry({}, f"{_LONG_HOST}:{MAX_PORT}"),
            "an IPv6 address": _entry({}, f"[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:{MAX_PORT}"),
        },
        beyond={
            "a longer name": _entry({}, f"{_LONG_HOST}a.a:1"),
            "a port beyond the highest": _entry({}, f"host.test:{MAX_PORT + 1}"),
        },
    ),
    Row(
        "`__scheme__`, `__metrics_path__` and `__param_*` of a list entry",
        _read_list,
        rejects=(DiscoveryError, RejectedError),
        worst={
            "the longest path": _entry({"__metrics_path__": "/" + "m" * (MAX_PATH - 1)}),
            "the most parameters": _entry(_PARAMETERS),
            "the longest parameter": _entry({"__param_x": "x" * (MAX_PATH - 2)}),
        },
        beyond={
            "a longer path": _entry({"__metrics_path__": "/" + "m" * MAX_PATH}),
            "one more parameter": _entry({**_PARAMETERS, "__param_more": ""}),
            "a longer parameter": _entry({"__param_x": "x" * (MAX_PATH - 1)}),
        },
    ),
    Row(
        "labels of a list entry",
        _read_list,
        rejects=(DiscoveryError, RejectedError),
        worst={
            "the most of the longest": _entry(_labels(MAX_LABELS, _FITTING)),
            "the longest value": _entry({"zone": "x" * MAX_LABEL_VALUE}),
            "the longest names": _entry(_labels(MAX_LABEL_CHARACTERS // MAX_TEXT, "", "l" * (MAX_TEXT - 5))),
            "labels for the service discovery alone": _entry(_labels(MAX_LIST_LABELS, "x", "__meta_")),
            "the longest name and method": _entry(
                {"target": "t" * MAX_LABEL_VALUE, "method": "m" * MAX_LABEL_VALUE}
            ),
        },
        beyond={
            "a longer value": _entry({"zone": "x" * (MAX_LABEL_VALUE + 1)}),
            "a longer name": _entry({"n" * (MAX_TEXT + 1): "x"}),
            "longer labels together": _entry(_labels(MAX_LABELS, _FITTING + "x")),
            "one more label": _entry(_labels(MAX_LABELS + 1, "")),
            "a longer name of the target": _entry({"target": "x" * (MAX_LABEL_VALUE + 1)}),
            "a longer method": _entry({"method": "x" * (MAX_LABEL_VALUE + 1)}),
            **{f"a value with {bad!r}": _entry({"zone": f"a{bad}"}) for bad in _NOT_PRINTABLE},
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
