"""Untrusted entries of discoveries, and labels of all sources."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from pydantic import ValidationError
from structlog.testing import capture_logs

from spec_decode_exporter.config.labels import (
    MAX_LABEL_CHARACTERS,
    MAX_LABEL_NAME,
    MAX_LABEL_VALUE,
    MAX_LABELS,
)
from spec_decode_exporter.config.source import explain
from spec_decode_exporter.config.target_settings import (
    DnsDiscovery,
    KubernetesDiscovery,
    Scrape,
    TargetSettings,
)
from spec_decode_exporter.core.urls import MAX_PATH, MAX_PORT
from spec_decode_exporter.discovery.discoverer import FleetLabels
from spec_decode_exporter.discovery.groups import (
    MAX_GROUP_LABELS,
    MAX_PARAMETER_CHARACTERS,
    MAX_PARAMETERS,
    Listing,
    ip_and_port,
    json_groups,
)
from spec_decode_exporter.discovery.kubernetes_api import Pod, access
from spec_decode_exporter.discovery.lists import DnsNameDiscovery
from spec_decode_exporter.discovery.pods import MAX_PORTS, PodReader
from spec_decode_exporter.discovery.target import DiscoveryError, LabelFilter, Target
from spec_decode_exporter.scrape.sample import MAX_ENGINES, MAX_NAME, MAX_NAMES_TOTAL
from tests.robustness.hostile.row import RejectedError, Row
from tests.robustness.hostile.server_pages import read_page

_NOT_PRINTABLE: Final = ("\0", "\n", "\x1b[2J", "\u202e", "\ud800")


def _written(value: object) -> Callable[[], bytes]:
    return lambda: json.dumps(value).encode()


def _text(text: str) -> Callable[[], bytes]:
    return text.encode


def _logged(read: Callable[[], Any]) -> Any:
    """Return the result of ``read``; a dropped label is a rejection."""
    with capture_logs() as logs:
        found = read()
    if logs:
        raise RejectedError(str(logs[0]["reason"]))
    return found


def _listed(group: Mapping[str, Any]) -> Sequence[Target]:
    listing = Listing("http x", "http", Scrape())
    try:
        found: Sequence[Target] = _logged(lambda: listing.targets(json_groups(json.dumps([group]).encode())))
    except DiscoveryError as error:
        raise RejectedError(str(error)) from None
    return found


async def _list_address(data: bytes) -> object:
    return _listed({"targets": [json.loads(data)]})


async def _list_labels(data: bytes) -> object:
    return _listed({"targets": ["host.test:8000"], "labels": json.loads(data)})


async def _pod(data: bytes) -> object:
    """Read a pod with some fields replaced."""
    fields = json.loads(data)
    labels = {name.split("/")[-1]: name for name in fields.get("labels", {})}
    pod = msgspec.convert(
        {
            "metadata": {
                "name": "p",
                "namespace": "n",
                "labels": fields.get("labels", {}),
                "annotations": fields.get("annotations", {}),
            },
            "spec": {"containers": [{"ports": fields.get("ports", [])}]},
            "status": {"phase": "Running", "podIP": fields.get("ip", "10.0.0.9")},
        },
        Pod,
    )
    reader = PodReader(KubernetesDiscovery(labels=labels), Scrape())
    return _logged(lambda: reader.targets(pod))


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


async def _configured_labels(data: bytes) -> object:
    try:
        return TargetSettings.model_validate({"url": "http://a", "labels": json.loads(data)})
    except ValidationError as error:
        problems = explain(error.errors(include_url=False)[0], TargetSettings)
        raise RejectedError("; ".join(message for _, message in problems)) from None


async def _addresses(data: bytes) -> object:
    """Read the responses to A and AAAA queries, one a line."""
    try:
        hosts = {ip_and_port(line, 8000) for line in data.decode().split("\n")}
    except ValueError as error:
        raise RejectedError(str(error)) from None
    return await _answers(hosts)


async def _services(data: bytes) -> object:
    """Read the targets of SRV records as ``host:port``, one on a line."""
    return await _answers(set(data.decode().split("\n")))


async def _answers(hosts: set[str]) -> object:
    found = DnsNameDiscovery("a.test", DnsDiscovery(names=("a.test",), type="A", port=8000), Scrape())

    async def answered() -> set[str]:
        return hosts

    found._addresses = answered
    try:
        return await found.targets()
    except DiscoveryError as error:
        raise RejectedError(str(error)) from None


async def _environment(data: bytes) -> object:
    host, port = data.decode().split(" ")
    try:
        return access(
            KubernetesDiscovery(), {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        )
    except DiscoveryError as error:
        raise RejectedError(str(error)) from None


def _labels(number: int, value: str = "x" * MAX_LABEL_VALUE, prefix: str = "l") -> dict[str, str]:
    return {f"{prefix}{count:05}": value for count in range(number)}


def _annotated(**annotations: str) -> Callable[[], bytes]:
    return _written({"annotations": {f"prometheus.io/{name}": value for name, value in annotations.items()}})


def _engines(*names: str) -> Callable[[], bytes]:
    lines = [f'vllm:generation_tokens_total{{model_name="{name}",engine="0"}} 1\n' for name in names]
    return lambda: "".join(lines).encode()


def _numbers(number: int) -> str:
    return ",".join(map(str, range(MAX_PORT - number + 1, MAX_PORT + 1)))


_FITTING = "x" * (MAX_LABEL_CHARACTERS // MAX_LABELS - len("l00000"))
_PARAMETERS = {f"__param_{number}": "" for number in range(MAX_PARAMETERS)}
_LONG_HOST = ".".join(["a" * 63] * 3 + ["a" * 61])
_FOREIGN: Final = {
    "userinfo": "host.test@evil.example",
    "userinfo with a port": "user:80@evil.example:80",
    "a path": "host.test:80/evil.example",
    "a query": "host.test?evil.example",
    "a fragment": "host.test#evil.example",
    "a backslash": "host.test\\evil.example",
    "an encoded slash": "host.test%2fevil.example",
    "an IPv6 zone": "[fe80::1%25eth0]:80",
    "text around brackets": "[::1]evil.example:80",
    "a future address": "[v1.evil]:80",
    "full-width letters": "\uff45vil.example",
    "an ideographic full stop": "evil\u3002example",
    "a sharp s": "stra\u00dfe.test",
    "a Kelvin sign": "\u212aevin.test",
    "a line end": "host.test\r\nHost: evil.example",
    "port 0": "host.test:0",
    "a port beyond the highest": f"host.test:{MAX_PORT + 1}",
    "a signed port": "host.test:+80",
    "an underscore in a port": "host.test:8_0",
    "other digits": "host.test:\u0668\u0660",
    "two ports": "host.test:80:81",
    "an empty host": ":80",
    "an empty label": "host..test",
}  # fmt: skip

ROWS: tuple[Row, ...] = (
    Row(
        name="address of a list entry",
        read=_list_address,
        worst={
            "the longest name": _written(f"{_LONG_HOST}:{MAX_PORT}"),
            "an IPv6 address": _written(f"[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:{MAX_PORT}"),
        },
        beyond={
            "a longer name": _written(f"{_LONG_HOST}a.a:1"),
            **{name: _written(text) for name, text in _FOREIGN.items()},
        },
    ),
    Row(
        name="`__scheme__`, `__metrics_path__` and `__param_*` of a list entry",
        read=_list_labels,
        worst={
            "the longest path": _written({"__metrics_path__": "/" + "m" * (MAX_PATH - 1)}),
            "the most parameters": _written(_PARAMETERS),
            "the longest parameter": _written({"__param_x": "x" * (MAX_PARAMETER_CHARACTERS - 2)}),
            "only what is percent-encoded": _written(
                {"__param_x": "\0" * ((MAX_PARAMETER_CHARACTERS - 2) // 3)}
            ),
        },
        beyond={
            "a URL as a scheme": _written({"__scheme__": "https://evil.example/?x="}),
            "a scheme in capitals": _written({"__scheme__": "HTTP"}),
            "a path of a host": _written({"__metrics_path__": "//evil.example/"}),
            "a path of a URL": _written({"__metrics_path__": "http://evil.example/"}),
            "a fragment": _written({"__metrics_path__": "/m#x"}),
            "a line end": _written({"__metrics_path__": "/m HTTP/1.1\r\nHost: evil.example"}),
            "a longer path": _written({"__metrics_path__": "/" + "m" * MAX_PATH}),
            "one more parameter": _written({**_PARAMETERS, "__param_more": ""}),
            "a longer parameter": _written({"__param_x": "x" * (MAX_PARAMETER_CHARACTERS - 1)}),
            "a parameter of 1 MiB": _written({"__param_x": "x" * 2**20}),
        },
    ),
    Row(
        name="labels of a list entry",
        read=_list_labels,
        worst={
            "the most of the longest": _written(_labels(MAX_LABELS, _FITTING)),
            "the longest value": _written({"zone": "x" * MAX_LABEL_VALUE}),
            "the longest names": _written(
                _labels(MAX_LABEL_CHARACTERS // MAX_LABEL_NAME, "", "l" * (MAX_LABEL_NAME - 5))
            ),
            "four bytes a character": _written(_labels(MAX_LABELS, "\N{ROCKET}" * len(_FITTING))),
            "characters that are escaped": _written(_labels(MAX_LABELS, '"' * len(_FITTING))),
            "labels for the service discovery alone": _written(_labels(MAX_GROUP_LABELS, "x", "__meta_")),
            "the longest name and method": _written(
                {"target": "t" * MAX_LABEL_VALUE, "method": "m" * MAX_LABEL_VALUE}
            ),
        },
        beyond={
            "a longer value": _written({"zone": "x" * (MAX_LABEL_VALUE + 1)}),
            "a value of 1 MiB": _written({"zone": "x" * 2**20}),
            "a longer name": _written({"n" * (MAX_LABEL_NAME + 1): "x"}),
            "longer labels together": _written(_labels(MAX_LABELS, _FITTING + "x")),
            "one more label": _written(_labels(MAX_LABELS + 1, "")),
            "100,000 labels": _written(_labels(100_000, "x")),
            "a longer name of the target": _written({"target": "x" * (MAX_LABEL_VALUE + 1)}),
            "a longer method": _written({"method": "x" * (MAX_LABEL_VALUE + 1)}),
            **{f"a value with {text!r}": _written({"zone": f"a{text}"}) for text in _NOT_PRINTABLE},
        },
    ),
    Row(
        name="annotations `port`, `path` and `scheme` of a pod",
        read=_pod,
        worst={
            "the most ports with the longest path": _annotated(
                port=_numbers(MAX_PORTS), path="m" * (MAX_PATH - 1), scheme="https"
            ),
        },
        beyond={
            "one more port": _annotated(port=_numbers(MAX_PORTS + 1)),
            "256 KiB of commas": _annotated(port="," * 2**18),
            "an invalid port": _annotated(port="80@evil.example"),
            "a URL as a scheme": _annotated(scheme="https://evil.example/?x="),
            "a longer path": _annotated(path="m" * MAX_PATH),
        },
    ),
    Row(
        name="address and ports in a pod's status and spec",
        read=_pod,
        worst={
            "the most ports of one name": _written(
                {
                    "annotations": {"prometheus.io/port": "http"},
                    "ports": [{"name": "http", "containerPort": number + 1} for number in range(MAX_PORTS)],
                }
            ),
            "one port 20,000 times": _written(
                {
                    "annotations": {"prometheus.io/port": ",".join(["http"] * MAX_PORTS)},
                    "ports": [{"name": "http", "containerPort": 1}] * 20_000,
                }
            ),
        },
        beyond={
            "a name as an address": _written({"ip": "evil.example"}),
            "a hexadecimal address": _written({"ip": "0x7f000001"}),
            "one more port": _written(
                {
                    "annotations": {"prometheus.io/port": "http"},
                    "ports": [
                        {"name": "http", "containerPort": number + 1} for number in range(MAX_PORTS + 1)
                    ],
                }
            ),
            "a port beyond the highest": _written(
                {
                    "annotations": {"prometheus.io/port": "http"},
                    "ports": [{"name": "http", "containerPort": MAX_PORT + 1}],
                }
            ),
        },
    ),
    Row(
        name="labels of a pod as labels",
        read=_pod,
        worst={
            "the most of the longest": _written(
                {"labels": {f"x/{name}": value for name, value in _labels(MAX_LABELS - 2, _FITTING).items()}}
            )
        },
        beyond={
            "a longer value": _written({"labels": {"x/zone": "x" * (MAX_LABEL_VALUE + 1)}}),
            "longer labels together": _written(
                {"labels": {f"x/{name}": value for name, value in _labels(3, "x" * 1_000).items()}}
            ),
            **{
                f"a value with {text!r}": _written({"labels": {"x/zone": f"a{text}"}})
                for text in _NOT_PRINTABLE
            },
        },
    ),
    Row(
        name="labels of all discovered targets together",
        read=_all_labels,
        worst={
            "10,000 targets of one group": _written([[10_000, _labels(MAX_LABELS - 2, _FITTING)]]),
            "1,000 groups": _written([[10, _labels(MAX_LABELS - 2, _FITTING)]] * 1_000),
        },
        beyond={
            "one more name": _written(
                [[1, {name: value}] for name, value in _labels(MAX_LABELS - 1, "x").items()]
            ),
            "longer names": _written([[1, _labels(MAX_LABELS - 2, "x", "l" * (MAX_LABEL_NAME - 5))]]),
            "10,000 names": _written([[1, {name: value}] for name, value in _labels(10_000, "x").items()]),
        },
    ),
    Row(
        name="`targets[].labels` of the configuration",
        read=_configured_labels,
        worst={"the most of the longest": _written(_labels(MAX_LABELS))},
        beyond={
            "a longer value": _written({"zone": "x" * (MAX_LABEL_VALUE + 1)}),
            "a longer name": _written({"n" * (MAX_LABEL_NAME + 1): "x"}),
            "one more label": _written(_labels(MAX_LABELS + 1)),
            **{f"a value with {text!r}": _written({"zone": f"a{text}"}) for text in _NOT_PRINTABLE[:-1]},
        },
    ),
    Row(
        name="A and AAAA records",
        read=_addresses,
        worst={"4,000 addresses": _text("\n".join(f"10.0.{n // 250}.{n % 250}" for n in range(4_000)))},
        beyond={"an IPv6 zone": _text("fe80::1%eth0"), "a name": _text("evil.example")},
    ),
    Row(
        name="SRV records",
        read=_services,
        worst={
            "2,000 records": _text("\n".join(f"h{n}.test:{n + 1}" for n in range(2_000))),
            "the longest name": _text(f"{_LONG_HOST}:{MAX_PORT}"),
        },
        beyond={
            "an escaped space": _text("evil\\032.example:80"),
            "an escaped full stop": _text("host\\.test:80"),
            "a slash": _text("host/evil.example:80"),
            "userinfo": _text("host@evil.example:80"),
            "port 0": _text("host.test:0"),
        },
    ),
    Row(
        name="names of models and engines on a page",
        read=read_page,
        worst={
            "the longest names": _engines(
                *(f"{n:03}".ljust(MAX_NAME - 1, "m") for n in range(MAX_NAMES_TOTAL // MAX_NAME))
            ),
            "the most engines": _engines(
                *(f"{n:03}".ljust(MAX_NAMES_TOTAL // MAX_ENGINES - 1, "m") for n in range(MAX_ENGINES))
            ),
            "names with terminal escapes and a zero byte": _engines("a\0\x1b[2J\u202e"),
        },
        beyond={
            "a longer name": _engines("m" * (MAX_NAME + 1)),
            "one more engine": _engines(*map(str, range(MAX_ENGINES + 1))),
            "longer names together": _engines(
                *(f"{n:03}".ljust(MAX_NAME, "m") for n in range(MAX_NAMES_TOTAL // MAX_NAME))
            ),
        },
    ),
    Row(
        name="`KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`",
        read=_environment,
        worst={
            "the longest name": _text(f"{_LONG_HOST} {MAX_PORT}"),
            "an IPv6 address": _text("fd00::1 443"),
        },
        beyond={
            "userinfo": _text("host@evil.example 443"),
            "a path": _text("host 443/evil.example"),
            "a port beyond the highest": _text(f"host {MAX_PORT + 1}"),
        },
    ),
)
