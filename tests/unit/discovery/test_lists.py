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
from pydantic import SecretStr

from spec_decode_exporter.config.http_settings import Authorization
from spec_decode_exporter.config.target_settings import DnsDiscovery, HttpDiscovery, Scrape
from spec_decode_exporter.discovery import lists as module
from spec_decode_exporter.discovery.lists import DnsNameDiscovery, FileDiscovery, HttpListDiscovery
from spec_decode_exporter.discovery.target import DiscoveryError
from tests.robustness.inputs.row import served


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


async def failure(discovery, message: str) -> DiscoveryError:
    """Refresh; return the error with this message."""
    with pytest.raises(DiscoveryError, match=message) as caught:
        await discovery.targets()
    return caught.value


async def test_yaml_and_json_are_read(put, find, urls):
    put("a.yml", "- targets: [a:1, 'b:1']\n  labels: {rack: 07}\n")
    put("b.json", '[{"targets": ["c:1"], "labels": {"rack": "8"}}]')
    found = [*await find("a.yml").targets(), *await find("b.json").targets()]
    assert urls(found) == ["http://a:1/metrics", "http://b:1/metrics", "http://c:1/metrics"]
    assert [target.labels for target in found] == [(("rack", "07"),)] * 2 + [(("rack", "8"),)]


async def test_a_pattern_finds_files_as_they_come_and_go(put, find, urls, tmp_path):
    discovery = find("*.y*ml")
    put("b.yml", "- targets: [b:1]")
    put("a.yaml", "- targets: [a:1]")
    put("c.json", "[]")
    assert urls(await discovery.targets()) == ["http://a:1/metrics", "http://b:1/metrics"]
    (tmp_path / "b.yml").unlink()
    put("d.yml", "- targets: [d:1]")
    assert urls(await discovery.targets()) == ["http://a:1/metrics", "http://d:1/metrics"]
    assert (await failure(find("gone.json"), "there is no such file")).targets == []


async def test_a_file_that_becomes_invalid_keeps_its_targets_until_it_is_deleted(put, find, urls, tmp_path):
    discovery = find("*.yml")
    put("a.yml", "- targets: [a:1]")
    put("b.yml", "- targets: [b:1]")
    await discovery.targets()
    put("a.yml", "- targets: [")
    put("b.yml", "- targets: [c:1]")
    for _ in range(2):
        error = await failure(discovery, r"a\.yml: line 1 is not YAML")
        assert urls(error.targets) == ["http://a:1/metrics", "http://c:1/metrics"]
    (tmp_path / "a.yml").unlink()
    assert urls(await discovery.targets()) == ["http://c:1/metrics"]
    put("a.yml", "- targets: [")
    assert (await failure(discovery, "is not YAML")).targets is None


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("nowhere/*.yml", "cannot be read: No such file or directory"),
        ("a.json", r"a\.json: line 1 is not JSON"),
        ("b.yml", r"b\.yml: the list must be a list"),
        ("half.yml", r"half\.yml: line 1 is not YAML"),
        ("pipe.json", r"pipe\.json: cannot be read: it is not a plain file"),
    ],
)
async def test_an_invalid_file_is_reported_and_leaves_the_targets_of_an_earlier_discovery(
    put, find, tmp_path, pattern, message
):
    put("a.json", "[] 5")
    put("b.yml", "targets: [a:1]")
    put("half.yml", "- targets: ['a:1'")
    os.mkfifo(tmp_path / "pipe.json")
    discovery = find(pattern)
    for _ in range(2):
        assert (await failure(discovery, message)).targets is None


@pytest.mark.parametrize(("limit", "value"), [("PATTERN_BYTES", 1000), ("FILES", 1)])
async def test_files_beyond_a_limit_are_not_read_and_the_targets_stay(put, find, monkeypatch, limit, value):
    monkeypatch.setattr(module, f"MAX_{limit}", value)
    monkeypatch.setattr(module, "read_bounded", None)
    for name in ("a.json", "b.json", "c.txt"):
        put(name, " " * 600)
    assert (await failure(find("*.json"), rf"matches more than .*\b{value}\b")).targets is None


async def test_files_are_read_only_when_one_of_them_has_changed(put, find, urls, monkeypatch):
    put("a.json", '[{"targets": ["a:1"]}]')
    discovery = find("*.json")
    await discovery.targets()
    monkeypatch.setattr(module, "read_bounded", None)
    assert urls(await discovery.targets()) == ["http://a:1/metrics"]
    put("a.json", "[]")
    with pytest.raises(TypeError):
        await discovery.targets()


def http_list(url: str, **keys) -> HttpListDiscovery:
    return HttpListDiscovery(HttpDiscovery(url=url, **keys), Scrape())


async def test_a_list_is_fetched_as_by_prometheus_with_credentials(urls):
    seen = {}

    async def answer(request: web.Request) -> web.Response:
        seen.update(request.headers)
        # with a charset after the type
        return web.json_response([{"targets": ["a:1"], "labels": {"team": "x"}}])

    token = Authorization(credentials=SecretStr("hunter2"))
    async with served(answer) as url:
        found = await http_list(url, authorization=token, refresh_interval=90.0).targets()
    assert urls(found) == ["http://a:1/metrics"]
    assert [(target.labels, target.discovery) for target in found] == [((("team", "x"),), "http")]
    assert seen["X-Prometheus-Refresh-Interval-Seconds"] == "90"
    assert seen["Accept"] == "application/json"
    assert seen["Authorization"] == "Bearer hunter2"


@pytest.mark.parametrize(
    ("text", "response", "message"),
    [
        ("[]", {"content_type": "text/html"}, "Content-Type is not application/json"),
        ("[", {}, "line 1 is not JSON"),
        ('[{"targets": 5}]', {}, r"\[0\].targets must be a list"),
        ("[]", {"status": 503}, "status 503"),
    ],
    ids=["html", "no json", "no list", "503"],
)
async def test_a_response_that_is_no_list_is_rejected(text, response, message):
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(**{"text": text, "content_type": "application/json", **response})

    async with served(answer) as url:
        assert (await failure(http_list(url), message)).targets is None


NAME = "_metrics._tcp.vllm.test"


class Responder(asyncio.DatagramProtocol):
    """Name server that answers from a table, with an error code, or not at all."""

    def __init__(self) -> None:
        self.records: dict[str, list[str]] = {}
        self.code = dns.rcode.NXDOMAIN

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
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


@pytest.mark.parametrize(
    ("records", "code", "message", "targets"),
    [
        ({}, dns.rcode.NXDOMAIN, "there is no such record", ()),
        ({NAME: []}, dns.rcode.NXDOMAIN, "there is no such record", ()),
        ({}, dns.rcode.SERVFAIL, "the look-up failed: NoNameservers", None),
    ],
    ids=["no name", "no record", "a name server that fails"],
)
async def test_a_deleted_service_removes_its_targets_and_a_failure_leaves_them(
    names, records, code, message, targets
):
    names.records, names.code = records, code
    assert (await failure(dns_name(), message)).targets == targets


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
    assert (await failure(dns_name("a.test", type="A", port=1), message)).targets == targets
