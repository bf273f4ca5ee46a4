"""Targets from files, lists over HTTP, and DNS names."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from unittest.mock import ANY, AsyncMock, Mock

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
from spec_decode_exporter.discovery.target import Target
from tests.robustness.inputs.row import served
from tests.unit.discovery.conftest import failure

MOMENTS = count(1_700_000_000, 10)


def put(path: Path, text: str) -> None:
    """Write a file with an increasing modification time, whatever the resolution of the file system."""
    path.write_text(text)
    moment = next(MOMENTS)
    os.utime(path, (moment, moment))


def urls(targets: Sequence[Target]) -> list[str]:
    return [target.url for target in targets]


async def test_yaml_and_json_are_read(tmp_path):
    put(tmp_path / "a.yml", "- targets: [a:1, 'b:1']\n  labels: {rack: 07}\n")
    put(tmp_path / "b.json", '[{"targets": ["c:1"], "labels": {"rack": "8"}}]')
    found = [
        *await FileDiscovery(tmp_path / "a.yml", Scrape()).targets(),
        *await FileDiscovery(tmp_path / "b.json", Scrape()).targets(),
    ]
    assert urls(found) == ["http://a:1/metrics", "http://b:1/metrics", "http://c:1/metrics"]
    assert [target.labels for target in found] == [(("rack", "07"),)] * 2 + [(("rack", "8"),)]


async def test_a_pattern_finds_files_as_they_come_and_go(tmp_path):
    discovery = FileDiscovery(tmp_path / "*.y*ml", Scrape())
    put(tmp_path / "b.yml", "- targets: [b:1]")
    put(tmp_path / "a.yaml", "- targets: [a:1]")
    put(tmp_path / "c.json", "[]")
    assert urls(await discovery.targets()) == ["http://a:1/metrics", "http://b:1/metrics"]
    (tmp_path / "b.yml").unlink()
    put(tmp_path / "d.yml", "- targets: [d:1]")
    assert urls(await discovery.targets()) == ["http://a:1/metrics", "http://d:1/metrics"]
    await failure(FileDiscovery(tmp_path / "gone.json", Scrape()), "there is no such file", [])


async def test_a_file_that_becomes_invalid_keeps_its_targets_until_it_is_deleted(tmp_path):
    discovery = FileDiscovery(tmp_path / "*.yml", Scrape())
    put(tmp_path / "a.yml", "- targets: [a:1]")
    put(tmp_path / "b.yml", "- targets: [b:1]")
    await discovery.targets()
    put(tmp_path / "a.yml", "- targets: [")
    put(tmp_path / "b.yml", "- targets: [c:1]")
    for _ in range(2):
        error = await failure(discovery, r"a\.yml: line 1 is not YAML", ANY)
        assert urls(error.targets) == ["http://a:1/metrics", "http://c:1/metrics"]
    (tmp_path / "a.yml").unlink()
    assert urls(await discovery.targets()) == ["http://c:1/metrics"]
    put(tmp_path / "a.yml", "- targets: [")
    await failure(discovery, "is not YAML")


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
    tmp_path, pattern, message
):
    put(tmp_path / "a.json", "[] 5")
    put(tmp_path / "b.yml", "targets: [a:1]")
    put(tmp_path / "half.yml", "- targets: ['a:1'")
    os.mkfifo(tmp_path / "pipe.json")
    discovery = FileDiscovery(tmp_path / pattern, Scrape())
    for _ in range(2):
        await failure(discovery, message)


@pytest.mark.parametrize(("limit", "value"), [("PATTERN_BYTES", 1000), ("FILES", 1)])
async def test_files_beyond_a_limit_are_not_read_and_the_targets_stay(tmp_path, monkeypatch, limit, value):
    monkeypatch.setattr(module, f"MAX_{limit}", value)
    monkeypatch.setattr(module, "read_bounded", None)
    for name in ("a.json", "b.json", "c.txt"):
        put(tmp_path / name, " " * 600)
    await failure(FileDiscovery(tmp_path / "*.json", Scrape()), rf"matches more than .*\b{value}\b")


async def test_files_are_read_only_when_one_of_them_has_changed(tmp_path, monkeypatch):
    put(tmp_path / "a.json", '[{"targets": ["a:1"]}]')
    discovery = FileDiscovery(tmp_path / "*.json", Scrape())
    await discovery.targets()
    monkeypatch.setattr(module, "read_bounded", None)
    assert urls(await discovery.targets()) == ["http://a:1/metrics"]
    put(tmp_path / "a.json", "[]")
    with pytest.raises(TypeError):
        await discovery.targets()


async def test_a_list_is_fetched_as_by_prometheus_with_credentials():
    # with a charset after the type
    answer = AsyncMock(return_value=web.json_response([{"targets": ["a:1"], "labels": {"team": "x"}}]))
    token = Authorization(credentials=SecretStr("hunter2"))
    async with served(answer) as url:
        settings = HttpDiscovery(url=url, authorization=token, refresh_interval=90.0)
        found = await HttpListDiscovery(settings, Scrape()).targets()
    seen = answer.await_args.args[0].headers
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
    answer = web.Response(**{"text": text, "content_type": "application/json", **response})
    async with served(AsyncMock(return_value=answer)) as url:
        await failure(HttpListDiscovery(HttpDiscovery(url=url), Scrape()), message)


NAME = "_metrics._tcp.vllm.test"
SERVICE = DnsDiscovery(names=(NAME,))


@dataclass
class Responder(asyncio.DatagramProtocol):
    """Name server that answers from a table, with an error code, or not at all."""

    records: dict[str, list[str]] = field(default_factory=dict)
    code: dns.rcode.Rcode = dns.rcode.NXDOMAIN

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
    responder.transport = transport
    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers = ["127.0.0.1"]
    resolver.port = transport.get_extra_info("sockname")[1]
    monkeypatch.setattr(dns.resolver, "Resolver", lambda: resolver)
    yield responder
    transport.close()


async def test_service_records_name_host_and_port(names):
    names.records[NAME] = ["10 5 8001 b.test.", "0 0 8000 a.test.", "0 0 1 ."]
    found = await DnsNameDiscovery(NAME, SERVICE, Scrape()).targets()
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
    await failure(DnsNameDiscovery(NAME, SERVICE, Scrape()), message, targets)


@pytest.mark.parametrize(
    ("kind", "name", "url"),
    [("A", "127.0.0.1", "http://127.0.0.1:8000/metrics"), ("A", "localhost", "http://127.0.0.1:8000/metrics"),
     ("AAAA", "::1", "http://[::1]:8000/metrics")],
)  # fmt: skip
async def test_addresses_get_the_port_that_is_configured(kind, name, url):
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
    monkeypatch.setattr(socket, "getaddrinfo", Mock(side_effect=error))
    settings = DnsDiscovery(names=("a.test",), type="A", port=1)
    await failure(DnsNameDiscovery("a.test", settings, Scrape()), message, targets)
