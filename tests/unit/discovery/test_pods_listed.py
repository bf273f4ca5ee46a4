"""Pods, listed at a simulated API."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from spec_decode_exporter.config.target_settings import KubernetesDiscovery, Scrape
from spec_decode_exporter.discovery import pods
from spec_decode_exporter.discovery.pods import PodDiscovery
from tests.robustness.inputs.row import served
from tests.unit.discovery.conftest import failure

LIST = "/api/v1/namespaces/inference/pods"


def pod(name, ip="10.0.0.1", version="1", **annotations):
    annotations = {f"prometheus.io/{key}": value for key, value in annotations.items()}
    metadata = {"name": name, "namespace": "inference", "resourceVersion": version}
    return {"metadata": {**metadata, "annotations": annotations}, "status": {"phase": "Running", "podIP": ip}}


@dataclass
class Api:
    """Simulated API server with the pods of the test."""

    pods: list[dict] = field(default_factory=lambda: [pod("a")])
    requests: list[dict] = field(default_factory=list)
    refusal: tuple[int, str] | None = None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        accepts, token = request.headers["Accept-Encoding"], request.headers.get("Authorization")
        self.requests.append({"path": request.path, **request.query, "accepts": accepts, "token": token})
        if self.refusal is not None:
            status, message = self.refusal
            return web.json_response({"kind": "Status", "message": message}, status=status)
        return self.page(int(request.query["continue"] or 0), int(request.query["limit"]))

    def page(self, first: int, limit: int) -> web.Response:
        more = {"continue": str(first + limit)} if first + limit < len(self.pods) else {}
        metadata = {"resourceVersion": "10", **more}
        return web.json_response({"metadata": metadata, "items": self.pods[first : first + limit]})


@pytest.fixture
async def api():
    api = Api()
    async with served(api.answer) as api.url:
        yield api


def discovery(api: Api, namespace: str | None = "inference", **keys) -> PodDiscovery:
    found = PodDiscovery(namespace, KubernetesDiscovery(**{"api_server": api.url, **keys}), Scrape())
    found.chance = lambda: 0.5
    return found


async def names(way: PodDiscovery) -> list[str]:
    """Return the targets that a refresh finds; a list without an end fails."""
    async with asyncio.timeout(20):
        return [target.name for target in await way.targets()]


# Lists.


async def test_pods_are_listed_page_by_page(api, monkeypatch):
    monkeypatch.setattr(pods, "PAGE", 2)
    api.pods = [pod(name) for name in "edcba"]
    way = discovery(api, label_selector="app=vllm")
    assert await names(way) == [f"inference/{name}" for name in "abcde"]
    assert [request.get("continue") for request in api.requests] == ["", "2", "4"]
    fields = [(each["path"], each["labelSelector"], each["fieldSelector"]) for each in api.requests]
    assert fields == [(LIST, "app=vllm", "status.phase=Running")] * 3
    await discovery(api, "").targets()
    assert api.requests[-1]["path"] == "/api/v1/pods"


async def test_more_targets_than_the_limit_are_rejected(api, monkeypatch):
    monkeypatch.setattr(pods, "MAX_TARGETS", 3)
    api.pods = [pod("a"), pod("b", port="1,2")]
    way = discovery(api)
    assert len(await way.targets()) == 3
    api.pods.append(pod("c"))
    await failure(way, "has more than 3 targets; choose fewer")


async def test_an_endless_list_is_an_error_with_a_remedy(api, monkeypatch):
    monkeypatch.setattr(pods, "MAX_PODS", 500)
    again = {"metadata": {"resourceVersion": "10", "continue": "7"}, "items": [pod("a")]}
    api.page = lambda *_: web.json_response(again)
    await failure(discovery(api), "more than 500 pods, or the list has no end; choose fewer by `namespaces`")
    assert len(api.requests) == 6


NO_PODS = "something else than pods"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>", "not JSON"),
        (gzip.compress(b"[")[:-4], "the compressed body is cut off"),
        (b"[]", NO_PODS),
        (b'{"items": [], "metadata": {}}', "the list has no version"),
        (b'{"metadata": {}, "items": [5]}', NO_PODS),
        (b'{"metadata": {}, "items": [{}]}', NO_PODS),
        (b'{"metadata": {}, "items": [{"metadata": {"name": "a/b"}}]}', NO_PODS),
        *((b'{"items": [], "metadata": {"%b": "%b"}}' % (key, b"x" * 10_000), NO_PODS) for key in (b"resourceVersion", b"continue")),
        (b"[" * 100_000, NO_PODS),
        (b'{"items": [' + b"{}," * 300_000, "too many values at once"),
    ],
    ids=["html", "gzip", "list", "no version", "item 5", "no name", "a path", "long version", "long continue", "deep", "large"],
)  # fmt: skip
async def test_a_response_that_is_no_list_of_pods_is_rejected(api, body, message):
    api.page = lambda *_: web.Response(
        body=body, headers={"Content-Encoding": "gzip"} if body[:1] == b"\x1f" else {}
    )
    await failure(discovery(api), message)
    assert api.requests[0]["accepts"] == "identity"


async def test_each_list_has_the_pods_as_they_are_now(api):
    way = discovery(api)
    assert await names(way) == ["inference/a"]
    api.pods = [pod("b"), pod("a", ip="10.0.0.2", version="2")]
    assert [target.url for target in await way.targets()] == [
        "http://10.0.0.2:8000/metrics",
        "http://10.0.0.1:8000/metrics",
    ]
    api.pods = [pod("b")]
    assert await names(way) == ["inference/b"]
    assert way.refresh == 28.5


async def test_a_pod_of_the_same_version_is_not_read_again(api, monkeypatch):
    way = discovery(api)
    (before,) = await way.targets()
    api.pods.append(pod("b", version=""))
    monkeypatch.setattr(way, "of_pod", lambda found: (f"new {found.metadata.name}",))
    assert await way.targets() == [before, "new b"]
    api.pods = [pod("a", version="2"), pod("b", version="")]
    assert await way.targets() == ["new a", "new b"]


async def test_pauses_grow_with_failures_up_to_a_minute_and_end_when_the_api_is_back(api):
    api.refusal = 410, "the continue token is too old"
    await failure(discovery(api), "status 410 Gone: the continue token is too old")
    api.refusal, way = None, discovery(api)
    assert await names(way) == ["inference/a"]
    api.refusal = 503, "shutting down"
    pauses = []
    for _ in range(9):
        await failure(way, "status 503 Service Unavailable: shutting down")
        pauses.append(way.refresh)
    assert pauses == [0.75 * seconds for seconds in (1, 2, 4, 8, 16, 32, 60, 60, 60)]
    api.refusal = None
    assert await names(way) == ["inference/a"]
    assert way.refresh == 28.5


# Access.


@pytest.mark.parametrize(
    ("namespace", "message"),
    [
        ("inference", r"to list pods in namespace inference is not allowed; bind a Role with"),
        ("", r"to list pods in all namespaces is not allowed; bind a ClusterRole with"),
    ],
)
async def test_the_error_of_a_missing_permission_has_the_required_role(api, namespace, message):
    api.refusal = 403, 'User "system:serviceaccount:x:y" cannot list resource "pods"'
    error = str(await failure(discovery(api, namespace), message))
    assert 'apiGroups: [""], resources: [pods], verbs: [list]' in error
    assert "system:serviceaccount:x:y" in error


async def test_a_rejected_token_and_an_unreachable_api_are_reported(api, unused_tcp_port):
    api.refusal = 401, "Unauthorized"
    await failure(discovery(api), "does not accept the token")
    way = discovery(api, api_server=f"http://127.0.0.1:{unused_tcp_port}/")
    await failure(way, rf"^127.0.0.1:{unused_tcp_port}: Connection refused")


@pytest.fixture(name="account")
def account_fixture(tmp_path, monkeypatch):
    (tmp_path / "token").write_text("rotating")
    (tmp_path / "namespace").write_text("mine\n")
    monkeypatch.setattr(pods, "SERVICE_ACCOUNT", tmp_path)
    return tmp_path


async def test_in_a_cluster_the_service_account_and_its_own_namespace_are_used(account, api):
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    url, http = pods.access(KubernetesDiscovery(), environ)
    assert url == "https://10.0.0.1:443"
    assert http.authorization.credentials_file == account / "token"
    assert http.tls_config.ca_file == account / "ca.crt"
    await discovery(api, None).targets()
    assert api.requests[0]["path"] == "/api/v1/namespaces/mine/pods"


@pytest.mark.parametrize("text", ["\n", "../secrets", "a/b", "a?b", "A"])
async def test_an_invalid_namespace_is_rejected(account, api, text):
    (account / "namespace").write_text(text)
    await failure(discovery(api, None), "names no namespace")
    assert api.requests == []


async def test_outside_of_a_pod_the_error_names_the_setting(account, api, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    await failure(discovery(api, api_server=None), "configure `api_server`")
    (account / "namespace").unlink()
    await failure(discovery(api, None), "configure `namespaces`")
