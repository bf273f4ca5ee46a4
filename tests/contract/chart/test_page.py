"""The command of the `helm test` pod, run against a stand-in's page."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading

import pytest


@pytest.fixture
def server():
    """Answer each connection with a page, or end it at once; return the address."""
    listening = []

    def start(page):
        answer = b"HTTP/1.0 200 OK\r\n\r\n" + page if page is not None else b""
        socket_ = socket.create_server(("127.0.0.1", 0))

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = socket_.accept()
                    with connection:
                        if answer and b"GET /metrics " in connection.recv(4096):
                            connection.sendall(answer)

        listening.append((socket_, threading.Thread(target=serve)))
        listening[-1][1].start()
        return f"127.0.0.1:{socket_.getsockname()[1]}"

    yield start
    for socket_, thread in listening:
        socket_.shutdown(socket.SHUT_RDWR)
        socket_.close()
        thread.join()


@pytest.fixture
def asked(render):
    """Run the pod's command against an address in place of the Service's; return its end."""

    def run(address, scheme="http", **values):
        (pod,) = render(values).of("Pod")
        python, *words, url = pod["spec"]["containers"][0]["command"]
        assert python == "python3"
        assert url.startswith(f"{scheme}://rel-spec-decode-exporter.obs:7732/")
        words.append(url.replace("rel-spec-decode-exporter.obs:7732", address))
        return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize(
    ("page", "status", "said"),
    [
        (b'spec_decode_exporter_build_info{version="1"} 1.0\n', 0, ""),
        (b"<html>sign in</html>", 1, "not the exporter's"),
        (None, 1, ""),
    ],
    ids=["the exporter's page", "another page", "no page"],
)
def test_only_the_exporter_s_page_passes(asked, server, page, status, said):
    done = asked(server(page))
    assert done.returncode == status
    assert said in done.stderr


TLS = {"cert_file": "tls.crt", "key_file": "tls.key"}
MUTUAL = {**TLS, "client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": "ca.crt"}


@pytest.mark.parametrize(
    ("web", "status"),
    [
        ({"config": {"tls_server_config": TLS}}, 1),
        ({"config": {"tls_server_config": {**MUTUAL, "client_auth_type": "VerifyClientCertIfGiven"}}}, 1),
        ({"config": {"tls_server_config": MUTUAL}}, 0),
        ({}, 0),
    ],
    ids=["TLS", "a certificate if given", "a certificate is required", "all from a Secret"],
)
def test_one_that_hangs_up_passes_only_where_it_may_want_a_certificate(asked, server, web, status):
    done = asked(server(None), scheme="https", web={**web, "existingSecret": "tls"})
    assert done.returncode == status, done.stderr
