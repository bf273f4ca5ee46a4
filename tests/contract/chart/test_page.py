"""The command of the `helm test` pod, run against a stand-in's page."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@pytest.fixture
def serve():
    """Serve a text; return the address."""
    servers = []

    def served(text):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200 if self.path == "/metrics" else 404)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        servers.append((server, thread))
        return f"127.0.0.1:{server.server_port}"

    yield served
    for server, thread in servers:
        server.shutdown()
        server.server_close()
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


def test_the_exporter_s_page_passes(asked, serve):
    page = b'spec_decode_exporter_build_info{version="1"} 1.0\n'
    assert asked(serve(page)).returncode == 0


def test_another_page_fails_and_says_so(asked, serve):
    done = asked(serve(b"<html>sign in</html>"))
    assert done.returncode == 1
    assert "not the exporter's" in done.stderr


def test_no_page_fails(asked, unused_tcp_port):
    assert asked(f"127.0.0.1:{unused_tcp_port}").returncode == 1


@pytest.fixture
def hanging_up():
    """Take connections and end them at once; return the address."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer():
        with contextlib.suppress(OSError):
            while True:
                listening.accept()[0].close()

    thread = threading.Thread(target=answer)
    thread.start()
    yield f"127.0.0.1:{listening.getsockname()[1]}"
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()


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
)
def test_one_that_hangs_up_passes_only_where_it_may_want_a_certificate(asked, hanging_up, web, status):
    done = asked(hanging_up, scheme="https", web={**web, "existingSecret": "tls"})
    assert done.returncode == status, done.stderr
