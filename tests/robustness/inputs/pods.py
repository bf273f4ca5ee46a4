"""Pods that Kubernetes lists, and the events of a watch: at their bounds, and just beyond them."""

from __future__ import annotations

import json
from typing import Final

from aiohttp import web

from spec_decode_exporter.config.target_settings import KubernetesDiscovery, Scrape
from spec_decode_exporter.discovery.groups import MAX_TARGETS
from spec_decode_exporter.discovery.kubernetes_api import MAX_LINE_BYTES, MAX_PAGE_BYTES
from spec_decode_exporter.discovery.pods import PodDiscovery
from spec_decode_exporter.discovery.target import DiscoveryError
from tests.robustness.inputs.row import MIB, Answer, Make, RejectedError, Row, as_json, filled, served


def _pod(name: str, **more: object) -> dict[str, object]:
    metadata = {"name": name, "namespace": "n", **more}
    return {"metadata": metadata, "status": {"phase": "Running", "podIP": "10.0.0.1"}}


def _pods(data: bytes, events: bytes) -> Answer:
    """Return an API server with a list of pods and the events of a watch."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=events if "watch" in request.query else data)

    return answer


def _discovery(url: str) -> PodDiscovery:
    settings = KubernetesDiscovery(api_server=url, namespaces=("n",), labels={"note": "note"})
    return PodDiscovery("n", settings, Scrape())


_EMPTY: Final = b'{"metadata":{"resourceVersion":"1"},"items":[]}'


async def _pod_list(data: bytes) -> object:
    async with served(_pods(data, b"")) as url:
        try:
            return await _discovery(url).targets()
        except DiscoveryError as error:
            raise RejectedError(str(error)) from None


async def _pod_events(data: bytes) -> object:
    """Watch the bytes, then the event of a new pod, which ends the refresh."""
    last = json.dumps({"type": "ADDED", "object": _pod("last")}).encode()
    async with served(_pods(_EMPTY, data + b"\n" + last + b"\n")) as url:
        found = _discovery(url)
        try:
            await found.targets()
            return await found.targets()
        except DiscoveryError as error:
            raise RejectedError(str(error)) from None


def _list(begin: bytes, unit: bytes, end: bytes) -> Make:
    head = b'{"metadata":{"resourceVersion":"1"},"items":['
    return filled(head + begin, unit, end + b"]}", MAX_PAGE_BYTES)


_BEGIN_OF_POD: Final = json.dumps(_pod("p"))[:-1].encode()


def _pod_names(number: int) -> Make:
    """Return a list of pods of different names."""
    return as_json(
        lambda: {"metadata": {"resourceVersion": "1"}, "items": [_pod(f"p{n}") for n in range(number)]}
    )


def _large_event(size: int) -> Make:
    """Return an event with a large part that is not read."""
    return filled(b'{"type":"MODIFIED","object":' + _BEGIN_OF_POD + b',"x":[', b"[],", b"[]]}}", size)


ROWS: tuple[Row, ...] = (
    Row(
        name="Kubernetes list of pods",
        read=_pod_list,
        worst={
            "pods": _pod_names(MAX_TARGETS),
            "a pod with a large part that is not read": _list(_BEGIN_OF_POD + b',"x":[', b"[],", b"[]]}"),
            "a pod with a large text": _list(_BEGIN_OF_POD + b',"x":"', b"\\u0000", b'"}'),
        },
        beyond={
            "bytes": filled(b"[", b" ", b"]", MAX_PAGE_BYTES + 1),
            "targets": _pod_names(MAX_TARGETS + 1),
            "a pod with many variables": _list(
                _BEGIN_OF_POD + b',"spec":{"containers":[{"env":[', b'{"name":"a"},', b'{"name":"a"}]}]}}'
            ),
            "a pod with many arguments": _list(
                _BEGIN_OF_POD + b',"spec":{"containers":[{"args":[', b'"--spec",', b'""]}]}}'
            ),
            "bytes full of empty pods": _list(b"", b"{},", b"{}"),
            "members of an object": _list(
                b'{"metadata":{"annotations":{',
                b",".join(b'"a%d":""' % number for number in range(20_000)) + b",",
                b'"":""}}}',
            ),
        },
    ),
    Row(
        name="Kubernetes watch event",
        read=_pod_events,
        worst={
            "an event with a large part that is not read": _large_event(MAX_LINE_BYTES),
            "many events": lambda: b"\n".join(
                [b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"2"}}}'] * 20_000
            ),
            "empty lines": filled(b"", b"\n", b"", MAX_LINE_BYTES),
        },
        beyond={"bytes": _large_event(MAX_LINE_BYTES + MIB), "an event that is no object": lambda: b"[]"},
    ),
)
