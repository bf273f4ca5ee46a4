"""The installed program as an init system or a person drives it: signals, mistakes, an unreachable vLLM."""

import json
import re
import signal
import socket

import pytest

from tests.paths import CHECKOUT

RELOADED = "spec_decode_exporter_config_last_reload_successful"


def config(*names):
    """Return a configuration of targets that refuse connections."""
    targets = [{"name": name, "url": f"http://127.0.0.1:{port}/"} for port, name in enumerate(names, 1)]
    return json.dumps({"targets": targets})


@pytest.fixture(scope="module")
def exporter(start, e2e):
    exporter = start(e2e.Exporter, config("first"), "--web.enable-lifecycle")
    exporter.wait_for(f"{exporter.url}/-/ready")
    return exporter


def test_it_is_ready_and_says_what_it_found_while_no_server_answers(exporter, e2e):
    e2e.eventually(lambda: 'spec_decode_exporter_target_up{target="first"} 0.0' in exporter.metrics())
    assert e2e.fetch(f"{exporter.url}/-/ready")[0] == 200
    assert "refused" in e2e.fetch(f"{exporter.url}/")[2]
    assert f"event=listening urls={exporter.url}/ " in exporter.log
    e2e.eventually(lambda: "event=target_failing" in exporter.log)


def test_the_address_of_the_page_is_the_last_line_of_make_run(e2e, tmp_path):
    makefile = (CHECKOUT / "Makefile").read_text()
    (words,) = re.findall(r"^\t\$\(BIN\)/spec-decode-exporter (run .*)$", makefile, flags=re.MULTILINE)
    address = f"127.0.0.1:{e2e.free_port()}"
    command = [e2e.PROGRAM, *words.split(), "--web.listen-address", address]
    demo = e2e.Running("demo", command, tmp_path)
    try:
        e2e.eventually(lambda: "Page: " in demo.log)
        assert demo.log.splitlines()[-1] == f"Page: http://{address}/"
    finally:
        assert demo.stop()[0] == 0


def test_a_reload_brings_new_targets_and_a_mistake_leaves_the_old_ones(exporter, e2e):
    exporter.config_path.write_text(config("first", "second"))
    exporter.signal(signal.SIGHUP)
    e2e.eventually(lambda: 'target="second"' in exporter.metrics())
    exporter.config_path.write_text("tagrets: []\n")
    exporter.signal(signal.SIGHUP)
    e2e.eventually(lambda: f"{RELOADED} 0.0" in exporter.metrics())
    status, _, text = e2e.fetch(f"{exporter.url}/-/reload", method="POST")
    assert status == 500
    assert "exporter.yml:1" in text
    assert "tagrets" in text
    assert 'target="second"' in exporter.metrics()
    exporter.config_path.write_text(config("first", "third"))
    assert e2e.fetch(f"{exporter.url}/-/reload", method="POST")[0] == 200
    e2e.eventually(lambda: 'target="third"' in exporter.metrics())
    assert f"{RELOADED} 1.0" in exporter.metrics()


def test_sigterm_ends_it_promptly_while_a_server_and_a_client_keep_it_waiting(start, e2e):
    poll = {"interval": "60s", "timeout": "60s"}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/metrics"
        told = {"poll": poll, "windows": ["5m"], "targets": [{"url": url}]}
        exporter = start(e2e.Exporter, json.dumps(told), name="waiting")
        exporter.wait_for(f"{exporter.url}/-/ready")
        with socket.create_connection(("127.0.0.1", exporter.port)) as idle:
            idle.sendall(b"GET /metrics HTTP/1.1\r\n")  # a client that never ends its request
            status, seconds = exporter.stop()
    assert status == 0
    assert seconds < e2e.PROMPTLY
    assert "Traceback" not in exporter.log
