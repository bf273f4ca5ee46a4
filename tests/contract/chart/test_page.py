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


TLS = {"cert_file": "tls.crt", "key_file": "tls.key"}
MUTUAL = {**TLS, "client_auth_type": "RequireAndVerifyClientCert", "client_ca_file": "ca.crt"}
GIVEN = {**MUTUAL, "client_auth_type": "VerifyClientCertIfGiven"}


@pytest.mark.parametrize(
    ("page", "web", "status"),
    [
        pytest.param(
            b'spec_decode_exporter_build_info{version="1"} 1.0\n', None, 0, id="the exporter's page"
        ),
        pytest.param(b"<html>sign in</html>", None, 1, id="another page"),
        pytest.param(None, None, 1, id="no page"),
        pytest.param(None, {"config": {"tls_server_config": TLS}}, 1, id="no page by TLS"),
        pytest.param(None, {"config": {"tls_server_config": GIVEN}}, 1, id="no certificate is required"),
        pytest.param(None, {"config": {"tls_server_config": MUTUAL}}, 0, id="it may want a certificate"),
        pytest.param(None, {}, 0, id="a Secret may require a certificate"),
    ],
)
def test_the_exporter_s_page_passes_and_no_page_only_where_a_certificate_may_be_wanted(
    asked, server, page, web, status
):
    secured = {"scheme": "https", "web": {**web, "existingSecret": "tls"}} if web is not None else {}
    done = asked(server(page), **secured)
    assert done.returncode == status, done.stderr
    assert page is None or status == 0 or "not the exporter's" in done.stderr
