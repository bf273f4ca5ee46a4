"""Untrusted entries of discoveries, and labels of all sources."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from structlog.testing import capture_logs

from spec_decode_exporter.config.target_settings import (
    KubernetesDiscovery,
    Scrape,
)
from spec_decode_exporter.config.types import (
    MAX_LABEL_CHARACTERS,
    MAX_LABEL_NAME,
    MAX_LABEL_VALUE,
    MAX_LABELS,
)
from spec_decode_exporter.core.urls import MAX_PATH, MAX_PORT
from spec_decode_exporter.discovery.discoverer import FleetLabels
from spec_decode_exporter.discovery.lists import (
    MAX_LIST_LABELS,
    MAX_PARAMETER_CHARACTERS,
    TargetDiscovery,
    json_groups,
)
from spec_decode_exporter.discovery.pods import MAX_PORTS, Pod, PodDiscovery
from spec_decode_exporter.discovery.target import DiscoveryError, LabelFilter, Target
from spec_decode_exporter.scrape.errors import PollError
from spec_decode_exporter.scrape.sample import MAX_ENGINES, MAX_NAME, MAX_NAMES_TOTAL
from tests.robustness.inputs.row import Make, RejectedError, Row, as_json, text
from tests.robustness.inputs.server_pages import read_page

_NOT_PRINTABLE: Final = ("\0", "\n", "\x1b[2J", "\u202e", "\ud800")


def _logged(read: Callable[[], Any]) -> Any:
    """Return the result of ``read``; a dropped label is a rejection."""
    with capture_logs() as logs:
        found = read()
    if logs:
        raise RejectedError(str(logs[0]["reason"]))
    return found


def _listed(group: Mapping[str, Any]) -> Sequence[Target]:
    listing = TargetDiscovery("http", "http x", Scrape(), 60.0)
    found: Sequence[Target] = _logged(lambda: listing.targets_of(json_groups(json.dumps([group]).encode())))
    return found


async def _list_address(data: bytes) -> object:
    return _listed({"targets": [json.loads(data)]})


async def _list_labels(data: bytes) -> object:
    return _listed({"targets": ["host.test:8000"], "labels": json.loads(data)})


async def _pod(data: bytes) -> object:
    """Read a pod with some fields replaced."""
    fields = {"labels": {}, "annotations": {}, "ports": [], "ip": "10.0.0.9", **json.loads(data)}
    metadata = {
        "name": "p",
        "namespace": "n",
        "labels": fields["labels"],
        "annotations": fields["annotations"],
    }
    spec = {"containers": [{"ports": fields["ports"]}]}
    status = {"phase": "Running", "podIP": fields["ip"]}
    pod = msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)
    labels = {name.split("/")[-1]: name for name in fields["labels"]}
    return _logged(lambda: PodDiscovery("n", KubernetesDiscovery(labels=labels), Scrape()).of_pod(pod))


async def _all_labels(data: bytes) -> object:
    """Read groups, each with a number of targets and labels, together with a pod."""
    pod = Target("http://p:1/m", "p", (("namespace", "n"), ("pod", "p")), discovery="kubernetes")
    found = []
    for group, (number, labels) in enumerate(json.loads(data)):
        shared = tuple(sorted(labels.items()))
        names = (f"h{group}-{count}:1" for count in range(number))
        found += [Target(f"http://{name}/m", name, shared, discovery="http") for name in names]
    labels = FleetLabels(["namespace", "pod"], LabelFilter("all"))
    return _logged(lambda: list(labels.limited([*found, pod])))


def _labels(number: int, value: str = "x" * MAX_LABEL_VALUE, prefix: str = "l") -> dict[str, str]:
    return {f"{prefix}{count:05}": value for count in range(number)}


def _annotated(**annotations: str) -> Make:
    return as_json({"annotations": {f"prometheus.io/{name}": value for name, value in annotations.items()}})


def _pod_ports(number: int) -> Make:
    """Return a pod whose annotation names one port that as many containers' ports have."""
    ports = [{"name": "http", "containerPort": port} for port in range(1, number + 1)]
    return as_json({"annotations": {"prometheus.io/port": "http"}, "ports": ports})


def _engines(number: int, length: int, name: str = "") -> Make:
    """Return a page of engines, each of a model with a name of this length."""
    names = [name or f"{n:03}".ljust(length, "m") for n in range(number)]
    lines = [f'vllm:generation_tokens_total{{model_name="{each}",engine="0"}} 1\n' for each in names]
    return text("".join(lines))


def _numbers(number: int) -> str:
    return ",".join(map(str, range(MAX_PORT - number + 1, MAX_PORT + 1)))


_FITTING = "x" * (MAX_LABEL_CHARACTERS // MAX_LABELS - len("l00000"))
_PARAMETERS = {f"__param_{number:03}": "" for number in range(MAX_PARAMETER_CHARACTERS // len("000=&"))}
_LONG_HOST = ".".join(["a" * 63] * 3 + ["a" * 61])
_FOREIGN: Final = {
    "userinfo": "host.test@evil.example",
    "a path": "host.test:80/evil.example",
    "a backslash": "host.test\\evil.example",
    "an IPv6 zone": "[fe80::1%25eth0]:80",
    "full-width letters": "\uff45vil.example",
    "a line end": "host.test\r\nHost: evil.example",
    "a port beyond the highest": f"host.test:{MAX_PORT + 1}",
    "other digits": "host.test:\u0668\u0660",
    "an empty host": ":80",
}


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
            **{name: as_json(address) for name, address in _FOREIGN.items()},
        },
    ),
    Row(
        "`__scheme__`, `__metrics_path__` and `__param_*` of a list entry",
        _list_labels,
        rejects=(DiscoveryError, RejectedError),
        worst={
            "the longest path": as_json({"__metrics_path__": "/" + "m" * (MAX_PATH - 1)}),
            "the most parameters": as_json(_PARAMETERS),
            "the longest parameter": as_json({"__param_x": "x" * (MAX_PARAMETER_CHARACTERS - 2)}),
            "only what is percent-encoded": as_json(
                {"__param_x": "\0" * ((MAX_PARAMETER_CHARACTERS - 2) // 3)}
            ),
        },
        beyond={
            "a URL as a scheme": as_json({"__scheme__": "https://evil.example/?x="}),
            "a scheme in capitals": as_json({"__scheme__": "HTTP"}),
            "a path of a host": as_json({"__metrics_path__": "//evil.example/"}),
            "a path of a URL": as_json({"__metrics_path__": "http://evil.example/"}),
            "a fragment": as_json({"__metrics_path__": "/m#x"}),
            "a line end": as_json({"__metrics_path__": "/m HTTP/1.1\r\nHost: evil.example"}),
            "a longer path": as_json({"__metrics_path__": "/" + "m" * MAX_PATH}),
            "one more parameter": as_json({**_PARAMETERS, "__param_more": ""}),
            "a longer parameter": as_json({"__param_x": "x" * (MAX_PARAMETER_CHARACTERS - 1)}),
        },
    ),
    Row(
        "labels of a list entry",
        _list_labels,
        rejects=(DiscoveryError, RejectedError),
        worst={
            "the most of the longest": as_json(_labels(MAX_LABELS, _FITTING)),
            "the longest value": as_json({"zone": "x" * MAX_LABEL_VALUE}),
            "the longest names": as_json(
                _labels(MAX_LABEL_CHARACTERS // MAX_LABEL_NAME, "", "l" * (MAX_LABEL_NAME - 5))
            ),
            "four bytes a character": as_json(_labels(MAX_LABELS, "\N{ROCKET}" * len(_FITTING))),
            "characters that are escaped": as_json(_labels(MAX_LABELS, '"' * len(_FITTING))),
            "labels for the service discovery alone": as_json(_labels(MAX_LIST_LABELS, "x", "__meta_")),
            "the longest name and method": as_json(
                {"target": "t" * MAX_LABEL_VALUE, "method": "m" * MAX_LABEL_VALUE}
            ),
        },
        beyond={
            "a longer value": as_json({"zone": "x" * (MAX_LABEL_VALUE + 1)}),
            "a longer name": as_json({"n" * (MAX_LABEL_NAME + 1): "x"}),
            "longer labels together": as_json(_labels(MAX_LABELS, _FITTING + "x")),
            "one more label": as_json(_labels(MAX_LABELS + 1, "")),
            "a longer name of the target": as_json({"target": "x" * (MAX_LABEL_VALUE + 1)}),
            "a longer method": as_json({"method": "x" * (MAX_LABEL_VALUE + 1)}),
            **{f"a value with {bad!r}": as_json({"zone": f"a{bad}"}) for bad in _NOT_PRINTABLE},
        },
    ),
    Row(
        "annotations `port`, `path` and `scheme` of a pod",
        _pod,
        worst={
            "the most ports with the longest path": _annotated(
                port=_numbers(MAX_PORTS), path="m" * (MAX_PATH - 1), scheme="https"
            ),
            "the most ports of one name": _pod_ports(MAX_PORTS),
        },
        beyond={
            "one more port": _annotated(port=_numbers(MAX_PORTS + 1)),
            "one more port of one name": _pod_ports(MAX_PORTS + 1),
            "a name as an address": as_json({"ip": "evil.example"}),
            "a longer label": as_json({"labels": {"x/zone": "x" * (MAX_LABEL_VALUE + 1)}}),
            "256 KiB of commas": _annotated(port="," * 2**18),
            "an invalid port": _annotated(port="80@evil.example"),
            "a URL as a scheme": _annotated(scheme="https://evil.example/?x="),
            "a longer path": _annotated(path="m" * MAX_PATH),
        },
    ),
    Row(
        "labels of all discovered targets together",
        _all_labels,
        worst={
            "10,000 targets of one group": as_json([[10_000, _labels(MAX_LABELS - 2, _FITTING)]]),
            "1,000 groups": as_json([[10, _labels(MAX_LABELS - 2, _FITTING)]] * 1_000),
        },
        beyond={
            "one more name": as_json(
                [[1, {name: value}] for name, value in _labels(MAX_LABELS - 1, "x").items()]
            ),
            "longer names": as_json([[1, _labels(MAX_LABELS - 2, "x", "l" * (MAX_LABEL_NAME - 5))]]),
        },
    ),
    Row(
        "names of models and engines on a page",
        read_page,
        rejects=PollError,
        worst={
            "the longest names": _engines(MAX_NAMES_TOTAL // MAX_NAME, MAX_NAME - 1),
            "the most engines": _engines(MAX_ENGINES, MAX_NAMES_TOTAL // MAX_ENGINES - 1),
            "names with terminal escapes and a zero byte": _engines(1, 1, "a\0\x1b[2J\u202e"),
        },
        beyond={
            "a longer name": _engines(1, MAX_NAME + 1),
            "one more engine": _engines(MAX_ENGINES + 1, 3),
            "longer names together": _engines(MAX_NAMES_TOTAL // MAX_NAME, MAX_NAME),
        },
    ),
)
