"""Targets from files, lists over HTTP, and DNS names."""

from __future__ import annotations

import asyncio
import os
import socket

import dns.message
import dns.rcode
import dns.resolver
import dns.rrset
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import SecretStr
from structlog.testing import capture_logs

from spec_decode_exporter.config.http_settings import Authorization
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.target_settings import DnsDiscovery, HttpDiscovery, Scrape
from spec_decode_exporter.discovery import lists as module
from spec_decode_exporter.discovery.discoverer import Discoverer
from spec_decode_exporter.discovery.lists import DnsNameDiscovery, FileDiscovery, HttpListDiscovery
from spec_decode_exporter.discovery.target import DiscoveryError


@pytest.fixture
def put(tmp_path):
    """Write a file with an increasing modification time, whatever the resolution of the file system."""
    moment = 1_700_000_000

    def write(name: str, text: str) -> None:
        nonlocal moment
        moment += 10
        path = tmp_path / name
        path.write_text(text)
        os.utime(path, (moment, moment))

    return write


@pytest.fixture
def find(tmp_path):
    """Return a discovery of the files that match a pattern."""
    return lambda pattern: FileDiscovery(tmp_path / pattern, Scrape())


async def test_yaml_and_json_are_read(put, find, urls):
    put("a.yml", "- targets: [a:1, 'b:1']\n  labels: {rack: 07}\n")
    put("b.json", '[{"targets": ["c:1"], "labels": {"rack": "8"}}]')
    yaml, json = await find("a.yml").targets(), await find("b.json").targets()
    assert urls([*yaml, *json]) == ["http://a:1/metrics", "http://b:1/metrics", "http://c:1/metrics"]
    assert [target.labels for target in [*yaml, *json]] == [(("rack", "07"),)] * 2 + [(("rack", "8"),)]


async def test_a_pattern_finds_files_as_they_come_and_go(put, find, urls, tmp_path):
    discovery = find("*.y*ml")
    put("b.yml", "- targets: [b:1]")
    put("a.yaml", "- targets: [a:1]")
    put("c.json", "[]")
    assert urls(await discovery.targets()) == ["http://a:1/metrics", "http://b:1/metrics"]
    (tmp_path / "b.yml").unlink()
    put("d.yml", "- targets: [d:1]")
    assert urls(await discovery.targets()) == ["http://a:1/metrics", "http://d:1/metrics"]


async def test_a_file_that_becomes_invalid_keeps_its_targets_and_the_others_are_updated(put, find, urls):
    discovery = find("*.yml")
    put("a.yml", "- targets: [a:1]")
    put("b.yml", "- targets: [b:1]")
    await discovery.targets()
    put("a.yml", "- targets: [")
    put("b.yml", "- targets: [c:1]")
    for _ in range(2):
        with pytest.raises(DiscoveryError, match=r"a\.yml: line 1 is not YAML") as caught:
            await discovery.targets()
        assert urls(caught.value.targets) == ["http://a:1/metrics", "http://c:1/metrics"]
    put("a.yml", "")
    assert urls(await discovery.targets()) == ["http://c:1/metrics"]


async def test_a_directory_that_cannot_be_listed_leaves_the_targets(find):
    with pytest.raises(DiscoveryError, match="cannot be read: No such file or directory") as caught:
        await find("nowhere/*.yml").targets()
    assert caught.value.targets is None


@pytest.mark.parametrize(("name", "text"), [("a.json", "[] 5"), ("b.yml", "targets: [a:1]")])
async def test_an_invalid_file_is_reported_with_its_name(put, find, name, text):
    put(name, text)
    with pytest.raises(DiscoveryError, match=rf"{name}: (line 1 is not JSON|the list must be a list)"):
        await find(name).targets()


async def test_a_file_that_returns_invalid_does_not_bring_back_its_deleted_targets(put, find, tmp_path):
    discovery = find("*.json")
    put("a.json", '[{"targets": ["a:1"]}]')
    await discovery.targets()
    put("a.json", "x")
    with pytest.raises(DiscoveryError, match="is not JSON"):
        await discovery.targets()
    (tmp_path / "a.json").unlink()
    with pytest.raises(DiscoveryError, match="no such file"):
        await discovery.targets()
    put("a.json", "x")
    with pytest.raises(DiscoveryError) as caught:
        await discovery.targets()
    assert caught.value.targets is None


async def test_a_file_that_was_never_readable_leaves_the_targets_of_an_earlier_discovery(put, find):
    put("half.yml", "- targets: ['a:1'")
    discovery = find("half.yml")
    for _ in range(2):
        with pytest.raises(DiscoveryError) as caught:
            await discovery.targets()
        assert caught.value.targets is None


@pytest.mark.parametrize(("limit", "value"), [("PATTERN_BYTES", 1000), ("FILES", 1), ("ENTRIES", 2)])
async def test_files_beyond_a_limit_are_not_read_and_the_targets_stay(put, find, monkeypatch, limit, value):
    monkeypatch.setattr(module, f"MAX_{limit}", value)
    monkeypatch.setattr(module, "read_bounded", None)
    for name in ("a.json", "b.json", "c.txt"):
        put(name, " " * 600)
    with pytest.raises(DiscoveryError, match=rf"matches more than .*\b{value}\b") as caught:
        await find("*.json").targets()
    assert caught.value.targets is None


async def test_files_with_too_many_targets_together_are_rejected(put, find, monkeypatch):
    monkeypatch.setattr(module, "MAX_TARGETS", 2)
    put("a.json", '[{"targets": ["a:1", "a:2"]}]')
    put("b.json", '[{"targets": ["b:1"]}]')
    discovery = find("*.json")
    with pytest.raises(DiscoveryError, match="has more than 2 targets") as caught:
        await discovery.targets()
    assert caught.value.targets is None
    put("b.json", "[]")
    assert len(await discovery.targets()) == 2


async def test_a_pipe_in_place_of_a_file_blocks_nothing(find, tmp_path):
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(DiscoveryError, match=r"a\.json: cannot be read: it is not a plain file"):
        await find("a.json").targets()


async def test_files_are_read_only_when_one_of_them_has_changed(put, find, urls, monkeypatch):
    put("a.json", '[{"targets": ["a:1"]}]')
    discovery = find("*.json")
    await discovery.targets()
    monkeypatch.setattr(module, "read_bounded", None)
    assert urls(await discovery.targets()) == ["http://a:1/metrics"]
    put("a.json", "[]")
    with pytest.raises(TypeError):
        await discovery.targets()


@pytest.fixture
async def lists():
    """Start a real server; ``lists(answer)`` returns the URL of a handler or a text."""
    servers: list[TestServer] = []

    async def serve(answer, **response) -> str:
        async def handle(request: web.Request) -> web.Response:
            if callable(answer):
                return answer(request)
            return web.Response(**{"text": answer, "content_type": "application/json", **response})

        app = web.Application()
        app.router.add_get("/list", handle)
        servers.append(TestServer(app))
        await servers[-1].start_server()
        return str(servers[-1].make_url("/list"))

    yield serve
    for server in servers:
        await server.close()


def http_list(url: str, **keys) -> HttpListDiscovery:
    return HttpListDiscovery(HttpDiscovery(url=url, **keys), Scrape())


async def test_a_list_is_fetched_and_read(lists, urls):
    found = await http_list(await lists('[{"targets": ["a:1"], "labels": {"team": "x"}}]')).targets()
    assert urls(found) == ["http://a:1/metrics"]
    assert [(target.labels, target.discovery) for target in found] == [((("team", "x"),), "http")]


async def test_the_request_is_that_of_prometheus_with_credentials(lists):
    seen = {}

    def answer(request: web.Request) -> web.Response:
        seen.update(request.headers)
        return web.json_response([])  # with a charset after the type

    token = Authorization(credentials=SecretStr("hunter2"))
    assert await http_list(await lists(answer), authorization=token, refresh_interval=90.0).targets() == []
    assert seen["X-Prometheus-Refresh-Interval-Seconds"] == "90"
    assert seen["Accept"] == "application/json"
    assert seen["Authorization"] == "Bearer hunter2"


@pytest.mark.parametrize(
    ("answer", "response", "message"),
    [
        ("[]", {"content_type": "text/html"}, "Content-Type is not application/json"),
        ("[", {}, "line 1 is not JSON"),
        ('[{"targets": 5}]', {}, r"\[0\].targets must be a list"),
        ("[]", {"status": 503}, "status 503"),
        ("[]", {"status": 302, "headers": {"Location": "/elsewhere"}}, "status 302"),
    ],
)
async def test_a_response_that_is_no_list_is_rejected(lists, answer, response, message):
    with pytest.raises(DiscoveryError, match=message) as caught:
        await http_list(await lists(answer, **response)).targets()
    assert caught.value.targets is None


async def test_an_unreachable_server_is_reported(unused_tcp_port):
    with pytest.raises(DiscoveryError, match="Connection refused"):
        await http_list(f"http://127.0.0.1:{unused_tcp_port}/list").targets()


NAME = "_metrics._tcp.vllm.test"


class Responder(asyncio.DatagramProtocol):
    """Name server that answers from a table, with an error code, or not at all."""

    def __init__(self) -> None:
        self.records: dict[str, list[str]] = {}
        self.code = dns.rcode.NXDOMAIN
        self.asked = 0

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        self.asked += 1
        query = dns.message.from_wire(data)
        answer = dns.message.make_response(query)
        question = query.question[0]
        records = self.records.get(question.name.to_text(omit_final_dot=True))
        if records is None:
            answer.set_rcode(self.code)
        elif records:
            answer.answer.append(dns.rrset.from_text_list(question.name, 60, "IN", "SRV", records))
        self.transport.sendto(answer.to_wire(), address)


@pytest.fixture
async def names(monkeypatch):
    """Name server on loopback, used by the resolver."""
    transport, responder = await asyncio.get_running_loop().create_datagram_endpoint(
        Responder, local_addr=("127.0.0.1", 0)
    )
    real = dns.resolver.Resolver

    def resolver() -> dns.resolver.Resolver:
        made = real(configure=False)
        made.nameservers = ["127.0.0.1"]
        made.port = transport.get_extra_info("sockname")[1]
        return made

    monkeypatch.setattr(dns.resolver, "Resolver", resolver)
    yield responder
    transport.close()


def dns_name(name: str = NAME, **keys) -> DnsNameDiscovery:
    return DnsNameDiscovery(name, DnsDiscovery(names=(name,), **keys), Scrape())


async def test_service_records_name_host_and_port(names, urls):
    names.records[NAME] = ["10 5 8001 b.test.", "0 0 8000 a.test.", "0 0 1 ."]
    found = await dns_name().targets()
    assert urls(found) == ["http://a.test:8000/metrics", "http://b.test:8001/metrics"]
    assert [(target.name, target.discovery) for target in found] == [
        ("a.test:8000", "dns"),
        ("b.test:8001", "dns"),
    ]


@pytest.mark.parametrize("records", [{}, {NAME: []}])
async def test_a_deleted_service_removes_its_targets(names, records):
    names.records = records
    with pytest.raises(DiscoveryError, match="there is no such record") as caught:
        await dns_name().targets()
    assert caught.value.targets == ()


async def test_a_name_server_that_fails_leaves_the_targets(names):
    names.code = dns.rcode.SERVFAIL
    with pytest.raises(DiscoveryError, match="the look-up failed: NoNameservers") as caught:
        await dns_name().targets()
    assert caught.value.targets is None


@pytest.mark.parametrize(
    ("kind", "name", "url"),
    [("A", "127.0.0.1", "http://127.0.0.1:8000/metrics"), ("A", "localhost", "http://127.0.0.1:8000/metrics"),
     ("AAAA", "::1", "http://[::1]:8000/metrics")],
)  # fmt: skip
async def test_addresses_get_the_port_that_is_configured(urls, kind, name, url):
    settings = DnsDiscovery(names=("any",), type=kind, port=8000)
    assert urls(await DnsNameDiscovery(name, settings, Scrape()).targets()) == [url]


@pytest.mark.parametrize(
    ("error", "message", "targets"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "not known", ()),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure"), "Temporary failure", None),
        (TimeoutError(), "no name server answered in time", None),
        (UnicodeError(), "this is no name", None),
    ],
)
async def test_the_system_resolver_distinguishes_missing_records_from_failures(
    monkeypatch, error, message, targets
):
    def fail(*_args, **_kwargs):
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(DiscoveryError, match=message) as caught:
        await dns_name("a.test", type="A", port=1).targets()
    assert caught.value.targets == targets


def test_service_records_need_dnspython(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(
        ValueError, match=r"SRV needs dnspython; run pip install 'spec-decode-exporter\[dns\]'"
    ):
        DnsDiscovery(names=("a",))
    assert DnsDiscovery(names=("a",), type="A", port=1).port == 1


async def test_names_that_flap_lose_no_target_that_is_not_known_to_be_gone(names, clock, until):
    lists = []
    config = Config.model_validate({"discovery": {"dns": [{"names": [NAME], "refresh_interval": "1s"}]}})
    names.records[NAME] = ["0 0 8000 a.test."]
    discoverer = Discoverer(config, clock, lambda targets: lists.append(len(targets)))
    looking = asyncio.create_task(discoverer.run())
    try:
        with capture_logs() as logs:
            for turn in range(20):
                await until(lambda turn=turn: names.asked > turn)
                # Every other question cannot be answered; the last of these is, with that there is no such name.
                names.code = dns.rcode.NXDOMAIN if turn == 18 else dns.rcode.SERVFAIL
                names.records = {} if turn % 2 == 0 else {NAME: ["0 0 8000 a.test."]}
                asked = names.asked
                while names.asked == asked:
                    await clock.advance(0.1, turns=200)
            await until(lambda: len(lists) == 4)
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    assert lists == [0, 1, 0, 1]
    assert {entry["event"] for entry in logs} == {"discovery_failed", "discovery_recovered"}
