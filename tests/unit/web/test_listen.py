import socket
import ssl
import stat

import aiohttp
import pytest
from aiohttp import web

from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.server import (
    ListenAddress,
    ListenError,
    Tls,
    parse_address,
    parse_listen_address,
    serve,
)
from tests.unit.web.plain_state import plain_state

HEALTHY = "spec-decode-exporter is healthy.\n"
INVALID = "7732 : localhost localhost: :65536 :-1 ::1:7732 [::1] http://x:1 u@h:1"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (":7732", ListenAddress("", 7732)),
        ("[::1]:7732", ListenAddress("::1", 7732)),
        ("[fe80::1%eth0]:80", ListenAddress("fe80::1%eth0", 80)),
        ("localhost:0", ListenAddress("localhost", 0)),
    ],
)
def test_an_address_is_parsed_and_formatted(value, expected):
    assert parse_listen_address(value) == expected
    assert str(expected) == value


@pytest.mark.parametrize("value", ["", "a b:1", ":\u0661", *INVALID.split()])
def test_an_invalid_address_is_rejected_with_the_remedy(value):
    with pytest.raises(ListenError) as refused:
        parse_listen_address(value)
    assert repr(value) in str(refused.value)
    assert "such as :7732" in str(refused.value)


@pytest.fixture
def app():
    return create_app(plain_state())


async def test_a_port_in_use_is_named_and_nothing_else_stays_bound(app):
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as free:
        used, unused = (ListenAddress("127.0.0.1", each.getsockname()[1]) for each in (taken, free))
        free.close()
        problem = rf"cannot listen on 127\.0\.0\.1:{used.port}: the port is in use.*choose another"
        with pytest.raises(ListenError, match=problem):
            await serve(app, [unused, used])
        socket.create_server(("127.0.0.1", unused.port)).close()


async def test_an_address_of_another_machine_is_named(app):
    with pytest.raises(ListenError, match=r"cannot listen on 192\.0\.2\.1:0: no interface of this machine"):
        await serve(app, [ListenAddress("192.0.2.1", 0)])


@pytest.fixture
def address(tmp_path):
    return parse_address(f"unix:{tmp_path}/exporter.sock")


async def text_at(address):
    connector = aiohttp.UnixConnector(str(address))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get("http://local/-/healthy") as answer,
    ):
        return await answer.text()


async def test_a_unix_socket_replaces_a_stale_one_has_no_tls_and_is_removed_on_close(app, address):
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(address))
    tls = Tls(lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    server = await serve(app, [address, parse_listen_address("127.0.0.1:0")], tls)
    assert server.urls[0].startswith("https://127.0.0.1:")
    assert server.urls[1] == f"unix:{address}"
    assert stat.S_IMODE(address.stat().st_mode) == 0o660
    assert await text_at(address) == HEALTHY
    await server.close()
    assert not address.exists()


async def test_a_client_of_a_unix_socket_needs_no_certificate(app, address):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server = await serve(
        app, [address, parse_listen_address("127.0.0.1:0")], Tls(lambda: context, lambda _: False)
    )
    assert await text_at(address) == HEALTHY
    await server.close()


async def test_a_socket_in_use_is_not_replaced(app, address):
    first = await serve(app, [address])
    with pytest.raises(ListenError, match="another program listens there; stop it, or choose another path"):
        await serve(web.Application(), [address])
    assert await text_at(address) == HEALTHY
    await first.close()


async def test_a_file_that_is_not_a_socket_is_never_removed(app, address):
    address.write_text("kept")
    with pytest.raises(ListenError, match="exists and is not a socket"):
        await serve(app, [address])
    assert address.read_text() == "kept"


@pytest.mark.parametrize("value", ["unix:", "unix:a.sock", "unix:/run/", "unix:/a\0b"])
def test_an_invalid_socket_path_is_rejected(value):
    with pytest.raises(ListenError, match=r"write an absolute path, such as unix:/run/exporter\.sock"):
        parse_address(value)
