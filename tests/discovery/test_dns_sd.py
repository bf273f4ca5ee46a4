from __future__ import annotations

import asyncio
import socket

import dns.message
import dns.rcode
import dns.resolver
import dns.rrset
import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.target_settings import DnsDiscovery, Scrape
from spec_decode_exporter.discovery.discoverer import Discoverer
from spec_decode_exporter.discovery.dns_sd import DnsNameDiscovery
from spec_decode_exporter.discovery.target_discovery import DiscoveryError

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


def discovery(name: str = NAME, **keys) -> DnsNameDiscovery:
    return DnsNameDiscovery(name, DnsDiscovery(names=(name,), **keys), Scrape())


async def test_service_records_name_host_and_port(names, urls):
    names.records[NAME] = ["10 5 8001 b.test.", "0 0 8000 a.test.", "0 0 1 ."]
    found = await discovery().targets()
    assert urls(found) == ["http://a.test:8000/metrics", "http://b.test:8001/metrics"]
    assert [(target.name, target.discovery) for target in found] == [
        ("a.test:8000", "dns"),
        ("b.test:8001", "dns"),
    ]


@pytest.mark.parametrize("records", [{}, {NAME: []}])
async def test_a_deleted_service_removes_its_targets(names, records):
    names.records = records
    with pytest.raises(DiscoveryError, match="there is no such record") as caught:
        await discovery().targets()
    assert caught.value.targets == ()


async def test_a_name_server_that_fails_leaves_the_targets(names):
    names.code = dns.rcode.SERVFAIL
    with pytest.raises(DiscoveryError, match="the look-up failed: NoNameservers") as caught:
        await discovery().targets()
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
        await discovery("a.test", type="A", port=1).targets()
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
