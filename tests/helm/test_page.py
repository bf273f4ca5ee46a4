"""What the pod of `helm test` runs, run here against a page that a stand-in serves."""

from __future__ import annotations

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

    def run(address):
        (pod,) = render().of("Pod")
        python, *words, url = pod["spec"]["containers"][0]["command"]
        assert python == "python3"
        assert url.startswith("http://rel-spec-decode-exporter.obs:7732/")
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
