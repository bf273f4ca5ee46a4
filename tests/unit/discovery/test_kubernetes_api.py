"""Pods, listed and watched at a simulated API."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from contextlib import asynccontextmanager, suppress

import pytest
import trustme
from aiohttp import web
from aiohttp.test_utils import TestServer

from spec_decode_exporter.config.http_settings import Authorization, TlsConfig
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.target_settings import Discovery, KubernetesDiscovery, Scrape
from spec_decode_exporter.discovery import kubernetes_api, pods
from spec_decode_exporter.discovery.discoverer import Discoverer
from spec_decode_exporter.discovery.pods import PodDiscovery
from spec_decode_exporter.discovery.target import DiscoveryError

GONE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}


def pod(name, ip="10.0.0.1", **annotations):
    return {
        "metadata": {
            "name": name,
            "namespace": "inference",
            "annotations": {f"prometheus.io/{key}": value for key, value in annotations.items()},
        },
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
        accepts = {"accepts": request.headers["Accept-Encoding"]}
        self.requests.append({"path": request.path, **request.query, **_token(request), **accepts})
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


def _token(request: web.Request) -> dict:
    return {"token": request.headers["Authorization"]} if "Authorization" in request.headers else {}


@pytest.fixture
async def api():
    api = Api()
    async with serving(api.answer) as api.url:
        yield api
        api.newest = None
        api.news.set()


@pytest.fixture
def discovery(api):
    def make(namespace: str | None = "inference", **keys) -> PodDiscovery:
        settings = KubernetesDiscovery(**{"api_server": api.url, **keys})
        return PodDiscovery(namespace, settings, Scrape(), chance=lambda: 0.5)

    return make


def names(targets):
    return [target.name for target in targets]


async def test_pods_are_listed_page_by_page(api, discovery, monkeypatch):
    monkeypatch.setattr(pods, "PAGE", 2)
    api.pods = [pod(name) for name in "edcba"]
    found = await discovery(label_selector="app=vllm").targets()
    assert names(found) == [f"inference/{name}" for name in "abcde"]
    assert [request.get("continue") for request in api.requests] == [None, "2", "4"]
    assert all(
        request["path"] == "/api/v1/namespaces/inference/pods"
        and request["labelSelector"] == "app=vllm"
        and request["fieldSelector"] == "status.phase=Running"
        for request in api.requests
    )


async def test_an_endless_list_is_an_error_with_a_remedy(api, discovery, monkeypatch):
    monkeypatch.setattr(pods, "MAX_PODS", 500)
    again = {"metadata": {"resourceVersion": "10", "continue": "7"}, "items": [pod("a")]}
    monkeypatch.setattr(api, "page", lambda first, limit: web.json_response(again))
    with pytest.raises(DiscoveryError, match="or the list has no end; choose fewer by `namespaces`"):
        await discovery().targets()
    assert len(api.requests) == 6


@asynccontextmanager
async def serving(answer, **tls):
    """Serve an answer in place of the simulated API; yield the address."""
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    server = TestServer(app, scheme="https" if tls else "http")
    await server.start_server(**tls)
    try:
        yield str(server.make_url("/"))
    finally:
        await server.close()


async def test_an_answer_in_pieces_of_a_byte_is_cut_off(discovery):
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        with suppress(ConnectionError):
            for _ in range(5_000):
                await response.write(b" ")
        return response

    async with serving(answer) as url:
        with pytest.raises(DiscoveryError, match="comes in too many small pieces"):
            await discovery(api_server=url).targets()


async def test_more_pods_than_the_limit_are_rejected(api, discovery, monkeypatch):
    monkeypatch.setattr(pods, "MAX_PODS", 3)
    api.pods = [pod(name) for name in "abcd"]
    with pytest.raises(DiscoveryError, match="there are more than 3 pods"):
        await discovery().targets()


async def test_more_targets_than_the_limit_are_rejected_in_a_list_and_in_a_watch(api, discovery, monkeypatch):
    monkeypatch.setattr(pods, "MAX_TARGETS", 3)
    api.pods = [pod("a"), pod("b", port="1,2")]
    way = discovery()
    assert len(await way.targets()) == 3
    api.tell(("ADDED", pod("c")))
    with pytest.raises(DiscoveryError, match="there are more than 3 targets; choose fewer"):
        await way.targets()
    api.pods = [pod("a", port="1,2,3,4")]
    with pytest.raises(DiscoveryError, match="there are more than 3 targets; choose fewer"):
        await discovery().targets()


async def test_a_compressed_response_is_not_decompressed(api, discovery):
    packed = gzip.compress(json.dumps({"metadata": {"resourceVersion": "1"}, "items": []}).encode())
    api.page = lambda *_: web.Response(body=packed, headers={"Content-Encoding": "gzip"})
    with pytest.raises(DiscoveryError, match="not JSON"):
        await discovery().targets()
    assert api.requests[0]["accepts"] == "identity"


async def test_pods_with_ever_new_mistakes_do_not_fill_the_log(api, discovery, log):
    api.pods = [pod(f"p{number}", port="none!") for number in range(150)]
    await discovery().targets()
    assert len(log) == 100


@pytest.mark.parametrize("key", ["resourceVersion", "continue"])
async def test_a_version_that_is_too_long_is_rejected(api, discovery, key):
    metadata = {"resourceVersion": "1", key: "x" * 10_000}
    api.page = lambda *_: web.json_response({"metadata": metadata, "items": []})
    with pytest.raises(DiscoveryError, match="something else than pods"):
        await discovery().targets()


async def test_all_namespaces_are_one_list(api, discovery):
    await discovery("").targets()
    assert [request["path"] for request in api.requests] == ["/api/v1/pods"]


async def test_a_watch_continues_from_the_version_of_the_list_or_of_the_last_event(api, discovery):
    way = discovery()
    assert names(await way.targets()) == ["inference/a"]
    api.tell(("ADDED", pod("b")))
    assert names(await way.targets()) == ["inference/a", "inference/b"]
    api.tell("end", ("DELETED", pod("a")))
    assert names(await way.targets()) == ["inference/b"]
    api.tell(("MODIFIED", pod("b", ip="10.0.0.2")))
    assert [target.url for target in await way.targets()] == ["http://10.0.0.2:8000/metrics"]
    assert len(api.lists) == 1
    assert [watch["resourceVersion"] for watch in api.watches][-1] == "12"
    assert {watch["allowWatchBookmarks"] for watch in api.watches} == {"true"}
    assert {watch["timeoutSeconds"] for watch in api.watches} == {"150"}
    assert way.refresh == 1.0


@pytest.mark.parametrize("how", ["in the stream", "as the status"])
async def test_an_expired_version_leads_to_a_new_list_after_a_pause(api, discovery, how):
    way = discovery()
    await way.targets()
    if how == "as the status":
        api.watch_refusal = 410, "too old"
    else:
        api.tell(("ERROR", GONE))
    assert names(await way.targets()) == ["inference/a"]
    assert way.refresh == 0.75
    api.pods, api.version, api.watch_refusal = [pod("b")], 500, None
    assert names(await way.targets()) == ["inference/b"]
    assert (len(api.lists), way.refresh) == (2, 1.0)
    api.tell(("DELETED", pod("b")))
    assert await way.targets() == []
    assert api.watches[-1]["resourceVersion"] == "500"


async def test_a_list_that_expires_at_first_leaves_the_targets_of_an_earlier_discovery(api, discovery):
    way = discovery()
    api.refusal = 410, "the continue token is too old"
    with pytest.raises(DiscoveryError, match="410 Gone") as caught:
        await way.targets()
    assert caught.value.targets is None
    api.refusal = None
    assert names(await way.targets()) == ["inference/a"]


@pytest.mark.parametrize(
    ("event", "message"),
    [(("ERROR", GONE), r"status 410 \(too old"), ("end", "ends a watch as soon as it begins")],
)
async def test_watches_without_a_result_are_reported_after_two_and_their_pauses_grow(
    api, discovery, event, message
):
    way = discovery()
    pauses = []
    await way.targets()
    for _ in range(2):
        api.tell(event)
        assert names(await way.targets()) == ["inference/a"]
        pauses.append(way.refresh)
        await way.targets()
    api.tell(event)
    with pytest.raises(DiscoveryError, match=message):
        await way.targets()
    assert [*pauses, way.refresh] == [0.75, 1.5, 3.0]


async def test_a_watch_that_ends_in_time_goes_on_where_it_was_and_ends_the_back_off(
    api, discovery, until, monkeypatch
):
    monkeypatch.setattr(pods, "_TOO_SHORT", 0.0)
    way = discovery()
    await way.targets()
    api.refusal = 503, "later"
    with pytest.raises(DiscoveryError):
        await way.targets()
    api.refusal = None
    assert names(await way.targets()) == ["inference/a"]
    for number, end in enumerate(("break", "end"), 3):
        look = asyncio.ensure_future(way.targets())
        await until(lambda number=number: len(api.watches) == number)
        api.tell(("BOOKMARK", {"metadata": {"resourceVersion": f"1{number}"}}), end)
        assert names(await look) == ["inference/a"]
        assert way._version == f"1{number}"
    api.tell(("ADDED", pod("b")))
    assert names(await way.targets()) == ["inference/a", "inference/b"]
    assert (len(api.lists), way._failures) == (1, 0)


async def test_a_watch_with_a_change_ends_the_back_off_too(api, discovery):
    way = discovery()
    await way.targets()
    api.refusal = 500, "overloaded"
    for _ in range(3):
        with pytest.raises(DiscoveryError):
            await way.targets()
    api.refusal = None
    await way.targets()
    api.tell(("ADDED", pod("b")))
    assert names(await way.targets()) == ["inference/a", "inference/b"]
    api.refusal = 500, "overloaded"
    with pytest.raises(DiscoveryError):
        await way.targets()
    assert way.refresh == 0.75


async def test_a_line_of_a_watch_beyond_the_limit_ends_it(api, discovery, monkeypatch):
    monkeypatch.setattr(kubernetes_api, "MAX_LINE_BYTES", 1000)
    way = discovery()
    await way.targets()
    api.tell(b" " * 1001)
    with pytest.raises(DiscoveryError, match="a line that is too long"):
        await asyncio.wait_for(way.targets(), 10)


async def test_pods_are_listed_again_after_an_event_that_is_not_understood(api, discovery):
    way = discovery()
    await way.targets()
    api.tell(b'{"type": "ADDED", "object": {"metadata": {"name": 5}}}\n')
    with pytest.raises(DiscoveryError, match="something else than pods"):
        await way.targets()
    assert names(await way.targets()) == ["inference/a"]
    assert len(api.lists) == 2


async def test_pauses_grow_with_failures_up_to_a_minute_and_end_when_the_api_is_back(api, discovery):
    way = discovery()
    assert names(await way.targets()) == ["inference/a"]
    api.refusal = 503, "shutting down"
    pauses = []
    for _ in range(9):
        with pytest.raises(DiscoveryError, match=r"status 503 \(shutting down\)") as caught:
            await way.targets()
        assert caught.value.targets is None
        pauses.append(way.refresh)
    assert pauses == [0.75 * seconds for seconds in (1, 2, 4, 8, 16, 32, 60, 60, 60)]
    api.refusal = None
    assert names(await way.targets()) == ["inference/a"]
    assert way.refresh == 1.0
    assert len(api.lists) == 1


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
    with pytest.raises(DiscoveryError, match=message) as caught:
        await way.targets()
    assert 'apiGroups: [""], resources: [pods], verbs: [list, watch]' in str(caught.value)
    assert "system:serviceaccount:x:y" in str(caught.value)


async def test_a_rejected_token_is_reported(api, discovery):
    api.refusal = 401, "Unauthorized"
    with pytest.raises(DiscoveryError, match="does not accept the token"):
        await discovery().targets()


async def test_a_token_is_read_again_when_it_is_replaced(api, discovery, tmp_path):
    file = tmp_path / "token"
    file.write_text("first\n")
    way = discovery(authorization=Authorization(credentials_file=file))
    await way.targets()
    (tmp_path / "new").write_text("second\n")
    (tmp_path / "new").replace(file)
    api.tell(("ADDED", pod("b")))
    await way.targets()
    assert [request["token"] for request in api.requests] == ["Bearer first", "Bearer second"]
    file.unlink()
    with pytest.raises(DiscoveryError, match="token: cannot be read"):
        await way.targets()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"<html>", "not JSON"),
        (b"[]", "something else than pods"),
        (b'{"items": [], "metadata": {}}', "no version to watch from"),
        (b'{"metadata": {}, "items": [5]}', "something else than pods"),
        (b'{"metadata": {}, "items": [{}]}', "something else than pods"),
        (b'{"metadata": {}, "items": [{"metadata": {"name": "a/b"}}]}', "something else than pods"),
        (b"[" * 100_000, "something else than pods"),
        (b'{"items": [' + b"{}," * 300_000, "too many values at once"),
    ],
)
async def test_a_response_that_is_no_list_of_pods_is_rejected(api, discovery, answer, message):
    api.page = lambda *_: web.Response(body=answer)
    with pytest.raises(DiscoveryError, match=message):
        await discovery().targets()


async def test_an_unreachable_api_is_reported(discovery, unused_tcp_port):
    way = discovery(api_server=f"http://127.0.0.1:{unused_tcp_port}/")
    with pytest.raises(DiscoveryError, match=r"^the API server cannot be reached: .*Connect call failed"):
        await way.targets()


@pytest.mark.parametrize(
    ("trusted", "name", "accepted"),
    [(False, "127.0.0.1", False), (True, "127.0.0.1", True), (True, "kubernetes.default", False)],
)
async def test_the_certificate_must_be_trusted_and_bear_the_name(
    api, discovery, tmp_path, trusted, name, accepted
):
    authority = trustme.CA()
    (authority if trusted else trustme.CA()).cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    tls = {"ca_file": tmp_path / "ca.pem"}
    async with serving(api.answer, ssl=context) as url:
        if not accepted:
            with pytest.raises(DiscoveryError, match="CERTIFICATE_VERIFY_FAILED") as caught:
                await discovery(api_server=url, tls_config=TlsConfig(**tls)).targets()
            assert "object at" not in str(caught.value)
            tls["server_name"] = name
        if trusted:
            way = discovery(api_server=url, tls_config=TlsConfig(**tls))
            assert names(await way.targets()) == ["inference/a"]


async def test_a_token_is_not_sent_to_the_host_of_a_redirect(discovery, tmp_path):
    (tmp_path / "token").write_text("secret")
    asked = []

    async def elsewhere(request):
        asked.append(request.path)
        raise web.HTTPFound("/elsewhere")

    async with serving(elsewhere) as url:
        token = Authorization(credentials_file=tmp_path / "token")
        with pytest.raises(DiscoveryError, match="status 302"):
            await discovery(api_server=url, authorization=token).targets()
    assert asked == ["/api/v1/namespaces/inference/pods"]


async def test_a_proxy_of_the_environment_is_ignored(api, discovery, monkeypatch, unused_tcp_port):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{unused_tcp_port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert names(await discovery().targets()) == ["inference/a"]


async def test_a_silently_lost_connection_is_detected(api, discovery, monkeypatch):
    """The read timeout is 50 ms here."""
    monkeypatch.setattr(pods, "_GRACE", 0.05 - 150)
    way = discovery()
    await way.targets()
    assert names(await asyncio.wait_for(way.targets(), 10)) == ["inference/a"]
    assert len(api.watches) == 1


class TestInACluster:
    @pytest.fixture(name="account")
    def account_fixture(self, api, tmp_path, monkeypatch):
        (tmp_path / "token").write_text("rotating")
        (tmp_path / "namespace").write_text("mine\n")
        monkeypatch.setattr(kubernetes_api, "SERVICE_ACCOUNT", tmp_path)
        return tmp_path

    def test_the_api_is_asked_as_the_service_account(self, account):
        environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
        url, http = kubernetes_api.access(KubernetesDiscovery(), environ)
        assert url == "https://10.0.0.1:443"
        assert http.authorization.credentials_file == account / "token"
        assert http.tls_config.ca_file == account / "ca.crt"

    async def test_the_pods_own_namespace_is_listed(self, account, discovery, api):
        await discovery(None).targets()
        assert api.requests[0]["path"] == "/api/v1/namespaces/mine/pods"

    @pytest.mark.parametrize("text", ["\n", "../secrets", "a/b", "a?b", "A"])
    async def test_an_invalid_namespace_is_rejected(self, account, discovery, api, text):
        (account / "namespace").write_text(text)
        with pytest.raises(DiscoveryError, match="names no namespace"):
            await discovery(None).targets()
        assert api.requests == []

    async def test_outside_of_a_pod_the_error_names_the_setting(self, discovery, monkeypatch):
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        with pytest.raises(DiscoveryError, match="configure `api_server`"):
            await discovery(api_server=None).targets()

    async def test_without_a_service_account_the_error_names_the_setting(
        self, discovery, monkeypatch, tmp_path
    ):
        monkeypatch.setattr(kubernetes_api, "SERVICE_ACCOUNT", tmp_path / "none")
        with pytest.raises(DiscoveryError, match="configure `namespaces`"):
            await discovery(None).targets()


async def test_with_other_discoveries_failures_are_logged_once_and_pauses_are_kept(api, clock, until, log):
    settings = KubernetesDiscovery(api_server=api.url, namespaces=("inference",))
    told: list[list[str]] = []
    config = Config(discovery=Discovery(kubernetes=(settings,)))
    discoverer = Discoverer(config, clock, lambda targets: told.append(names(targets)))
    task = asyncio.ensure_future(discoverer.run())
    await until(lambda: len(told) == 2)
    await clock.advance(1.0)
    await until(lambda: len(api.watches) == 1)
    assert told == [[], ["inference/a"]]
    api.pods.append(pod("b", ip="10.0.0.2"))
    api.tell(("ADDED", api.pods[-1]))
    await until(lambda: len(told) == 3)
    await clock.advance(1.0)
    await until(lambda: len(api.watches) == 2)
    api.refusal = 503, "later"
    api.tell("end")
    while not log:
        await clock.advance(0.1, turns=50)
    asked = len(api.requests)
    await clock.advance(0.4)
    assert len(api.requests) == asked
    api.refusal = None
    await clock.advance(2.0)
    await until(lambda: len(log) == 2)
    assert [entry["event"] for entry in log] == ["discovery_failed", "discovery_recovered"]
    assert told == [[], ["inference/a"], ["inference/a", "inference/b"]]
    assert discoverer.counts()["kubernetes"] == 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_different_discoveries_have_different_keys_and_labels_do_not_count(discovery):
    keys = [
        discovery(*namespace, **settings).key
        for namespace, settings in [
            ((), {}),
            (("other",), {}),
            ((None,), {}),
            (("",), {}),
            ((), {"label_selector": "a=b"}),
            ((), {"ports": ("9000",)}),
            ((), {"only_ready": True}),
            ((), {"api_server": "https://other:1/"}),
        ]
    ]
    assert len(set(keys)) == len(keys)
    assert discovery(labels={"team": "x"}).key == keys[0]
    assert discovery(label_selector="app=vllm").name == "kubernetes namespace inference app=vllm"
