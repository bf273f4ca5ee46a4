"""The command of the `helm test` pod, run against a stand-in's page."""

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@pytest.fixture
def server():
    """Serve a page, or end each connection at once; return the address."""
    started = []

    def start(page):
        class Handler(BaseHTTPRequestHandler):
            def handle(self):
                if page is not None:
                    super().handle()

            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(page)

        started.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=started[-1].serve_forever, args=(0.01,)).start()
        return f"127.0.0.1:{started[-1].server_port}"

    yield start
    for each in started:
        each.shutdown()
        each.server_close()


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


@pytest.mark.parametrize(
    ("page", "web", "status"),
    [
        pytest.param(
            b'spec_decode_exporter_build_info{version="1"} 1.0\n', None, 0, id="the exporter's page"
        ),
        pytest.param(b"<html>sign in</html>", None, 1, id="another page"),
        pytest.param(None, None, 1, id="no page"),
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
