"""Pods that Kubernetes lists, at their bounds, and just beyond them."""

from __future__ import annotations

import json
from typing import Final

from spec_decode_exporter.config.target_settings import KubernetesDiscovery, Scrape
from spec_decode_exporter.config.types import MAX_TARGETS
from spec_decode_exporter.discovery.pods import MAX_PAGE_BYTES, PodDiscovery
from spec_decode_exporter.discovery.target import DiscoveryError
from tests.robustness.faults import sends, serving
from tests.robustness.inputs.row import Make, Row, as_json, filled
from tests.robustness.inputs.server_pages import JSON, answer


async def _pod_list(data: bytes) -> object:
    async with serving(sends(answer(data, JSON))) as server:
        settings = KubernetesDiscovery(api_server=server.url(), namespaces=("n",), labels={"note": "note"})
        return await PodDiscovery("n", settings, Scrape()).targets()


def _list(begin: bytes, unit: bytes, end: bytes) -> Make:
    head = b'{"metadata":{"resourceVersion":"1"},"items":['
    return filled(head + begin, unit, end + b"]}", MAX_PAGE_BYTES)


_STATUS: Final = {"phase": "Running", "podIP": "10.0.0.1"}
_BEGIN_OF_POD: Final = b'{"metadata":{"name":"p","namespace":"n"},"status":%b' % json.dumps(_STATUS).encode()


def _pods(number: int) -> Make:
    """Return a list of pods of different names."""
    names = [f"p{place}" for place in range(number)]
    return as_json(
        lambda: {
            "metadata": {"resourceVersion": "1"},
            "items": [{"metadata": {"name": name, "namespace": "n"}, "status": _STATUS} for name in names],
        }
    )


ROWS: tuple[Row, ...] = (
    Row(
        name="Kubernetes list of pods",
        read=_pod_list,
        rejects=DiscoveryError,
        worst={
            "pods": _pods(MAX_TARGETS),
            "a pod with a large part that is not read": _list(_BEGIN_OF_POD + b',"x":[', b"[],", b"[]]}"),
        },
        beyond={
            "bytes": filled(b"[", b" ", b"]", MAX_PAGE_BYTES + 1),
            "targets": _pods(MAX_TARGETS + 1),
            "a pod with many variables": _list(
                _BEGIN_OF_POD + b',"spec":{"containers":[{"env":[', b'{"name":"a"},', b'{"name":"a"}]}]}}'
            ),
            "bytes full of empty pods": _list(b"", b"{},", b"{}"),
        },
    ),
)
