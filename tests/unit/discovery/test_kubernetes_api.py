"""Pods, listed and watched at a simulated API."""

from __future__ import annotations

import asyncio
import gzip
import json
from contextlib import suppress

import pytest
from aiohttp import web

from spec_decode_exporter.config.http_settings import Authorization
from spec_decode_exporter.config.target_settings import KubernetesDiscovery, Scrape
from spec_decode_exporter.discovery import kubernetes_api, pods
from spec_decode_exporter.discovery.pods import PodDiscovery
from spec_decode_exporter.discovery.target import DiscoveryError
from tests.robustness.inputs.row import served

GONE = ("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"})
LIST = "/api/v1/namespaces/inference/pods"


def pod(name, ip="10.0.0.1", **annotations):
    annotations = {f"prometheus.io/{key}": value for key, value in annotations.items()}
    return {
        "metadata": {"name": name, "namespace": "inference", "annotations": annotations},
        "status": {"phase": "Running", "podIP": ip},
    }


class Api:
    """Simulated API server with the lists and watch events of the test.

    Every watch from an earlier version gets a pod's event; other lines go to one watch.
    """

    def __init__(self) -> None:
        self.pods = [pod("a")]
        self.version = 10
        self.requests: list[dict] = []
        self.refusal: tuple[int, str] | None = None
        self.watch_refusal: tuple[int, str] | None = None
        self.events: list[tuple[int, object]] = []
        self.told: set[int] = set()
        self.newest: web.Request | None = None
        self.news = asyncio.Event()

    def tell(self, *events) -> None:
        for event in events:
            version = 0
            if isinstance(event, tuple) and event[0] == "BOOKMARK":
                self.version = int(event[1]["metadata"]["resourceVersion"])
            elif isinstance(event, tuple) and event[0] != "ERROR":
                version = self.version = self.version + 1
                event[1]["metadata"]["resourceVersion"] = str(version)
            self.events.append((version, event))
        self.news.set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        accepts, token = request.headers["Accept-Encoding"], request.headers.get("Authorization")
        self.requests.append({"path": request.path, **request.query, "accepts": accepts, "token": token})
        watches = "watch" in request.query
        refusal = self.refusal or (self.watch_refusal if watches else None)
        if refusal is not None:
            status, message = refusal
            return web.json_response({"kind": "Status", "message": message}, status=status)
        if watches:
            return await self.watch(request, int(request.query["resourceVersion"]))
        return self.page(int(request.query.get("continue", 0)), int(request.query["limit"]))

    def page(self, first: int, limit: int) -> web.Response:
        more = {"continue": str(first + limit)} if first + limit < len(self.pods) else {}
        metadata = {"resourceVersion": str(self.version), **more}
        return web.json_response({"metadata": metadata, "items": self.pods[first : first + limit]})

    async def watch(self, request: web.Request, since: int) -> web.StreamResponse:
        self.newest = request
        self.news.set()
        response = web.StreamResponse()
        await response.prepare(request)
        place = 0
        while self.newest is request:
            if place == len(self.events):
                self.news.clear()
                await self.news.wait()
                continue
            version, event = self.events[place]
            place += 1
            if (version and version <= since) or (place in self.told and not version):
                continue
            self.told.add(place)
            match event:
                case "end":
                    return response
                case "break":
                    request.transport.abort()
                    return response
                case bytes(text):
                    await response.write(text)
                case kind, found:
                    await response.write(json.dumps({"type": kind, "object": found}).encode() + b"\n")
                    if kind == "ERROR":
                        return response
        return response

    @property
    def watches(self) -> list[dict]:
        return [request for request in self.requests if "watch" in request]

    @property
    def lists(self) -> list[dict]:
        return [request for request in self.requests if "watch" not in request]


@pytest.fixture
async def api():
    api = Api()
    async with served(api.answer) as api.url:
        yield api
        api.newest = None
        api.news.set()


@pytest.fixture
def discovery(api):
    def make(namespace: str | None = "inference", **keys) -> PodDiscovery:
        settings = KubernetesDiscovery(**{"api_server": api.url, **keys})
        return PodDiscovery(namespace, settings, Scrape(), chance=lambda: 0.5)

    return make


@pytest.fixture
async def way(discovery):
    """Discovery that has listed the pods."""
    way = discovery()
    await way.targets()
    return way


async def names(way: PodDiscovery) -> list[str]:
    """Return the pods in the namespace ``inference`` that a refresh finds."""
    async with asyncio.timeout(20):
        return [target.name.removeprefix("inference/") for target in await way.targets()]


async def failure(way: PodDiscovery, message: str | None = None) -> DiscoveryError:
    """Refresh; return the error with this message."""
    with pytest.raises(DiscoveryError, match=message) as caught:
        await way.targets()
    assert caught.value.targets is None
    return caught.value


# Lists.


async def test_pods_are_listed_page_by_page(api, discovery, monkeypatch):
    monkeypatch.setattr(pods, "PAGE", 2)
    api.pods = [pod(name) for name in "edcba"]
    assert await names(discovery(label_selector="app=vllm")) == list("abcde")
    assert [request.get("continue") for request in api.requests] == [None, "2", "4"]
    fields = [(each["path"], each["labelSelector"], each["fieldSelector"]) for each in api.requests]
    assert fields == [(LIST, "app=vllm", "status.phase=Running")] * 3
    await discovery("").targets()
    assert api.requests[-1]["path"] == "/api/v1/pods"


async def test_more_targets_than_the_limit_are_rejected_in_a_watch(api, discovery, monkeypatch):
    monkeypatch.setattr(pods, "MAX_TARGETS", 3)
    api.pods = [pod("a"), pod("b", port="1,2")]
    way = discovery()
    assert len(await way.targets()) == 3
    api.tell(("ADDED", pod("c")))
    await failure(way, "there are more than 3 targets; choose fewer")


async def test_an_endless_list_is_an_error_with_a_remedy(api, discovery, monkeypatch):
    monkeypatch.setattr(pods, "MAX_PODS", 500)
    again = {"metadata": {"resourceVersion": "10", "continue": "7"}, "items": [pod("a")]}
    api.page = lambda *_: web.json_response(again)
    await failure(discovery(), "more than 500 pods, or the list has no end; choose fewer by `namespaces`")
    assert len(api.requests) == 6


async def test_an_answer_in_pieces_of_a_byte_is_cut_off(discovery):
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        with suppress(ConnectionError):
            for _ in range(5_000):
                await response.write(b" ")
        return response

    async with served(answer) as url:
        await failure(discovery(api_server=url), "comes in too many small pieces")


NO_PODS = "something else than pods"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>", "not JSON"),
        (gzip.compress(b'{"metadata": {"resourceVersion": "1"}, "items": []}'), "not JSON"),
        (b"[]", NO_PODS),
        (b'{"items": [], "metadata": {}}', "no version to watch from"),
        (b'{"metadata": {}, "items": [5]}', NO_PODS),
        (b'{"metadata": {}, "items": [{}]}', NO_PODS),
        (b'{"metadata": {}, "items": [{"metadata": {"name": "a/b"}}]}', NO_PODS),
        *((b'{"items": [], "metadata": {"%b": "%b"}}' % (key, b"x" * 10_000), NO_PODS) for key in (b"resourceVersion", b"continue")),
        (b"[" * 100_000, NO_PODS),
        (b'{"items": [' + b"{}," * 300_000, "too many values at once"),
    ],
    ids=["html", "gzip", "list", "no version", "item 5", "no name", "a path", "long version", "long continue", "deep", "large"],
)  # fmt: skip
async def test_a_response_that_is_no_list_of_pods_is_rejected(api, discovery, body, message):
    api.page = lambda *_: web.Response(
        body=body, headers={"Content-Encoding": "gzip"} if body[:1] == b"\x1f" else {}
    )
    await failure(discovery(), message)
    assert api.requests[0]["accepts"] == "identity"


# Watches.


async def test_a_watch_continues_from_the_version_of_the_list_or_of_the_last_event(api, discovery):
    way = discovery()
    assert await names(way) == ["a"]
    api.tell(("ADDED", pod("b")))
    assert await names(way) == ["a", "b"]
    api.tell("end", ("DELETED", pod("a")))
    assert await names(way) == ["b"]
    api.tell(("MODIFIED", pod("b", ip="10.0.0.2")))
    assert [target.url for target in await way.targets()] == ["http://10.0.0.2:8000/metrics"]
    assert len(api.lists) == 1
    assert api.watches[-1]["resourceVersion"] == "12"
    assert {(each["allowWatchBookmarks"], each["timeoutSeconds"]) for each in api.watches} == {
        ("true", "150")
    }
    assert way.refresh == 1.0


@pytest.mark.parametrize(
    ("event", "message"),
    [(GONE, r"status 410 \(too old"), ("end", "ends a watch as soon as it begins")],
    ids=["expired", "ended"],
)
async def test_watches_without_a_result_are_reported_after_two_and_their_pauses_grow(
    api, discovery, event, message
):
    way = discovery()
    pauses = []
    await way.targets()
    for number in range(2):
        api.tell(event)
        assert await names(way) == ["a"]
        pauses.append(way.refresh)
        assert await names(way) == ["a"]  # listed again
        assert len(api.lists) == 2 + number
    api.tell(event)
    await failure(way, message)
    assert [*pauses, way.refresh] == [0.75, 1.5, 3.0]


async def test_a_watch_that_ends_in_time_goes_on_where_it_was_and_ends_the_back_off(
    api, way, until, monkeypatch
):
    monkeypatch.setattr(pods, "_TOO_SHORT", 0.0)
    api.refusal = 503, "later"
    await failure(way)
    api.refusal = None
    assert await names(way) == ["a"]
    for number, end in enumerate(("break", "end"), 3):
        look = asyncio.ensure_future(names(way))
        await until(lambda number=number: len(api.watches) == number)
        api.tell(("BOOKMARK", {"metadata": {"resourceVersion": f"1{number}"}}), end)
        assert await look == ["a"]
        assert way._version == f"1{number}"
    api.tell(("ADDED", pod("b")))
    assert await names(way) == ["a", "b"]
    assert len(api.lists) == 1
    api.refusal = 500, "overloaded"
    await failure(way)
    assert way.refresh == 0.75  # the first pause


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"type": "ADDED", "object": {"metadata": {"name": 5}}}\n', NO_PODS),
        (b" " * 1001, "a line that is too long"),
    ],
    ids=["not a pod", "beyond the limit"],
)
async def test_pods_are_listed_again_after_an_unreadable_event(api, way, monkeypatch, line, message):
    monkeypatch.setattr(kubernetes_api, "MAX_LINE_BYTES", 1000)
    api.tell(line)
    await asyncio.wait_for(failure(way, message), 10)
    api.tell("end")
    assert await names(way) == ["a"]
    assert len(api.lists) == (2 if message == NO_PODS else 1)


async def test_pauses_grow_with_failures_up_to_a_minute_and_end_when_the_api_is_back(api, discovery):
    api.refusal = 410, "the continue token is too old"
    await failure(discovery(), "410 Gone")
    api.refusal, way = None, discovery()
    assert await names(way) == ["a"]
    api.refusal = 503, "shutting down"
    pauses = []
    for _ in range(9):
        await failure(way, r"status 503 \(shutting down\)")
        pauses.append(way.refresh)
    assert pauses == [0.75 * seconds for seconds in (1, 2, 4, 8, 16, 32, 60, 60, 60)]
    api.refusal = None
    assert await names(way) == ["a"]
    assert (way.refresh, len(api.lists)) == (1.0, 2)


async def test_a_silently_lost_connection_is_detected(api, way, monkeypatch):
    """The read timeout is 50 ms here."""
    monkeypatch.setattr(pods, "_GRACE", 0.05 - 150)
    assert await asyncio.wait_for(names(way), 10) == ["a"]
    assert len(api.watches) == 1


# Access.


@pytest.mark.parametrize(
    ("namespace", "verb", "message"),
    [
        ("inference", "list", r"to list pods in namespace inference is not allowed; bind a Role with"),
        ("inference", "watch", r"to watch pods in namespace inference is not allowed; bind a Role with"),
        ("", "list", r"to list pods in all namespaces is not allowed; bind a ClusterRole with"),
    ],
)
async def test_the_error_of_a_missing_permission_has_the_required_role(
    api, discovery, namespace, verb, message
):
    way = discovery(namespace)
    if verb == "watch":
        await way.targets()
    api.refusal = 403, 'User "system:serviceaccount:x:y" cannot list resource "pods"'
    error = str(await failure(way, message))
    assert 'apiGroups: [""], resources: [pods], verbs: [list, watch]' in error
    assert "system:serviceaccount:x:y" in error


async def test_a_rejected_token_and_an_unreachable_api_are_reported(api, discovery, unused_tcp_port):
    api.refusal = 401, "Unauthorized"
    await failure(discovery(), "does not accept the token")
    way = discovery(api_server=f"http://127.0.0.1:{unused_tcp_port}/")
    await failure(way, r"^the API server cannot be reached: .*Connect call failed")


async def test_a_token_is_not_sent_to_the_host_of_a_redirect(discovery, tmp_path):
    (tmp_path / "token").write_text("secret")
    asked = []

    async def elsewhere(request):
        asked.append(request.path)
        raise web.HTTPFound("/elsewhere")

    async with served(elsewhere) as url:
        token = Authorization(credentials_file=tmp_path / "token")
        await failure(discovery(api_server=url, authorization=token), "status 302")
    assert asked == [LIST]


async def test_a_proxy_of_the_environment_is_ignored(api, discovery, monkeypatch, unused_tcp_port):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{unused_tcp_port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert await names(discovery()) == ["a"]


@pytest.fixture(name="account")
def account_fixture(tmp_path, monkeypatch):
    (tmp_path / "token").write_text("rotating")
    (tmp_path / "namespace").write_text("mine\n")
    monkeypatch.setattr(kubernetes_api, "SERVICE_ACCOUNT", tmp_path)
    return tmp_path


async def test_in_a_cluster_the_service_account_and_its_own_namespace_are_used(account, api, discovery):
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    url, http = kubernetes_api.access(KubernetesDiscovery(), environ)
    assert url == "https://10.0.0.1:443"
    assert http.authorization.credentials_file == account / "token"
    assert http.tls_config.ca_file == account / "ca.crt"
    await discovery(None).targets()
    assert api.requests[0]["path"] == "/api/v1/namespaces/mine/pods"


@pytest.mark.parametrize("text", ["\n", "../secrets", "a/b", "a?b", "A"])
async def test_an_invalid_namespace_is_rejected(account, discovery, api, text):
    (account / "namespace").write_text(text)
    await failure(discovery(None), "names no namespace")
    assert api.requests == []


async def test_outside_of_a_pod_the_error_names_the_setting(account, discovery, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    await failure(discovery(api_server=None), "configure `api_server`")
    (account / "namespace").unlink()
    await failure(discovery(None), "configure `namespaces`")
