"""The installed program observes a simulated server over real sockets, as a person or a script uses it."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import pty
import select
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

COST = ("--speculative.method", "draft_model", "--cost.draft-cost-ratio")


@pytest.fixture
def simulated(e2e, start):
    """Start a simulated server whose time passes four times as fast; returns its address."""

    class Simulator(e2e.Running):
        def __init__(self, folder, scenario):
            self.port = e2e.free_port()
            self.address = f"127.0.0.1:{self.port}"
            words = ("--scenario", scenario, "--speed", "4", "--listen-address", self.address)
            super().__init__(Path(scenario).stem, [e2e.PROGRAM, "simulate", *words], folder)

    def simulated(scenario):
        simulator = start(Simulator, scenario)
        simulator.wait_for(f"http://{simulator.address}/health")
        simulated.newest = simulator
        return simulator.address

    return simulated


@pytest.fixture
def observe(e2e):
    def observe(*words, **environ):
        return subprocess.run(
            [e2e.PROGRAM, "observe", *words],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=300,
            check=False,
            env={**os.environ, **environ},
        )

    return observe


class Counting:
    """Address of a simulated server that counts its answered polls."""

    def __init__(self, address):
        self.polls = 0
        counting = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                with contextlib.suppress(OSError):
                    self._forward()

            def _forward(self):
                try:
                    with urllib.request.urlopen(f"http://{address}{self.path}") as answer:
                        status, kind, body = answer.status, answer.headers["Content-Type"], answer.read()
                except urllib.error.HTTPError as error:
                    with error:
                        status, kind, body = error.code, "text/plain", error.read()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(body)
                counting.polls += self.path.startswith("/metrics")

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def counted(simulated):
    """Start a simulated server behind an address that counts the polls."""
    started = []

    def counted(scenario):
        started.append(Counting(simulated(scenario)))
        return started[-1]

    yield counted
    for counting in started:
        counting.stop()


POLLS = 6
"""Answers after which a report has an acceptance rate."""


def on_a_terminal(program, *words, steps=()):
    """Run on a terminal of its own; return its output and its exit status.

    Each step is called with the output so far, several times a second, until it returns true; then the next begins.
    """
    process, terminal = pty.fork()
    if not process:
        os.execve(program, [str(program), *words], {**os.environ, "TERM": "xterm", "NO_COLOR": ""})
    written, pending = b"", list(steps)
    while True:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                written += os.read(terminal, 65536)
            except OSError:  # it has ended
                break
        if pending and pending[0](written, terminal):
            del pending[0]
    os.close(terminal)
    _, status = os.waitpid(process, 0)
    return written.decode(), os.waitstatus_to_exitcode(status)


def interrupt(_, terminal):
    return os.write(terminal, b"\x03")


def repainted(times):
    """Return a step that ends when the terminal has been repainted N times."""
    return lambda written, _: written.count(b"\x1b[H") >= times


def pause(seconds):
    """Return a step that lasts N seconds at least."""
    begun = []

    def paused(*_):
        begun.append(time.monotonic())
        return begun[-1] - begun[0] > seconds

    return paused


def test_a_server_that_pays(simulated, observe):
    found = observe(simulated("steady"), "--for", "15s", *COST, "0.08")
    assert found.returncode == 0, found.stdout + found.stderr
    assert "Speculation pays" in found.stdout
    assert "Keep drafting 4 tokens" in found.stdout
    assert "\x1b" not in found.stdout
    assert not found.stderr


def test_a_server_that_is_harmed(simulated, observe):
    load = ("--cost.running-requests", "16")
    found = observe(simulated("harmful"), "--for", "20s", *COST, "0.3", *load)
    assert found.returncode == 4, found.stdout + found.stderr
    assert "**HARMFUL**" in found.stdout
    assert "Try 1 token instead of 4" in found.stdout


@pytest.mark.parametrize("scenario", ["off-now", "idle-now"])
def test_a_server_without_drafts_is_not_evaluated(simulated, observe, tmp_path, scenario):
    load = {"idle-now": "load: {concurrency: 0}", "off-now": "speculation: {tokens: 0}"}[scenario]
    file = tmp_path / f"{scenario}.yml"
    file.write_text(f"description: no drafts\n{load}\n")
    found = observe(simulated(str(file)), "--for", "3s")
    assert found.returncode == 3, found.stdout + found.stderr
    assert "Missing data" in found.stdout


def test_a_server_that_is_not_there(e2e, simulated, observe):
    absent = f"127.0.0.1:{e2e.free_port()}"
    found = observe(simulated("steady"), absent, "--for", "3s")
    assert found.returncode == 1
    assert f"{absent}: refused: Connection refused; start the server, or correct the port" in found.stderr
    assert f"- `{absent}`: `refused: Connection refused`; start the server" in found.stdout
    assert "acceptance rate" in found.stdout


def test_json_for_a_script(simulated, observe):
    found = observe(simulated("steady"), "--for", "8s", "--every", "2s", "--format", "json")
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    assert len(lines) in range(3, 6)
    assert lines[-1]["engines"][0]["windows"][-1]["window"] == "8s"
    drafts = [line["engines"][0]["totals"]["drafts"] for line in lines]
    assert drafts == sorted(drafts)
    assert drafts[0] < drafts[-1]


def test_servers_that_never_answer_end_the_observation(e2e, observe):
    begun = time.monotonic()
    found = observe("--target", f"127.0.0.1:{e2e.free_port()}", "--for", "2m")
    assert found.returncode == 1
    assert found.stdout.splitlines()[0].startswith("**`127.0.0.1:")
    assert "no server answered for 10 s" in found.stderr
    assert time.monotonic() - begun < 60


def test_the_embedded_simulator(observe):
    found = observe("--simulate", "steady", "--for", "5s")
    assert found.returncode in {0, 3}
    assert "simulated-vllm" in found.stdout


def test_an_encoding_without_drawings(simulated, observe):
    found = observe(simulated("steady"), "--for", "2s", PYTHONIOENCODING="latin-1")
    assert found.stdout.isascii()
    assert "#####" in found.stdout


def test_a_reader_that_goes_away(e2e, simulated):
    words = [e2e.PROGRAM, "observe", simulated("steady"), "--for", "0", "--every", "1s"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
    assert not errors
    assert process.returncode in range(4)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_observation_is_reported(e2e, counted, number):
    server = counted("steady")
    words = [e2e.PROGRAM, "observe", server.address, "--for", "10m"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        e2e.eventually(lambda: server.polls > POLLS)
        process.send_signal(number)
        written, errors = process.communicate(timeout=300)
    assert "acceptance rate" in written
    assert not errors
    assert process.returncode in {0, 3}


def test_an_interrupt_that_comes_twice_at_once_is_one(e2e, simulated, counted):
    """GNU timeout signals the process, and then its group with the process in it."""
    server = counted("steady")
    words = [e2e.PROGRAM, "observe", server.address, "--for", "0", "--every", "1h"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        e2e.eventually(lambda: server.polls > POLLS)
        # The last poll then waits for its answer, so that the second comes before the report.
        simulated.newest.signal(signal.SIGSTOP)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        simulated.newest.signal(signal.SIGCONT)
        written, errors = process.communicate(timeout=300)
    assert "acceptance rate" in written
    assert not errors
    assert process.returncode in {0, 3}


@pytest.mark.parametrize(
    ("redirected", "said"),
    [
        (">/dev/full", "the report cannot be written: No space left on device"),
        (">&-", "there is no standard output to write the report to"),
    ],
)
@pytest.mark.parametrize("every", ["", "--every 1s"])
def test_a_report_that_nothing_takes_is_one_line_and_status_1(e2e, simulated, redirected, said, every):
    words = f"{e2e.PROGRAM} observe {simulated('steady')} --for 2s {every} {redirected}"
    found = subprocess.run(
        ["/bin/sh", "-c", words], stderr=subprocess.PIPE, text=True, timeout=300, check=False
    )
    assert (found.stderr, found.returncode) == (f"spec-decode-exporter: {said}\n", 1)


def test_progress_is_omitted_without_standard_error(e2e, simulated):
    words = f"{e2e.PROGRAM} observe {simulated('steady')} --for 2s 2>&-"
    found = subprocess.run(
        ["/bin/sh", "-c", words], stdout=subprocess.PIPE, text=True, timeout=300, check=False
    )
    assert "acceptance rate" in found.stdout
    assert found.returncode in {0, 3}


def test_progress_on_a_terminal(e2e, simulated):
    written, _ = on_a_terminal(e2e.PROGRAM, "observe", simulated("steady"), "--for", "4s")
    progress, _, shown = written.rpartition("\r\x1b[K")
    assert "of 4s" in progress
    assert "\n" not in progress
    assert "acceptance rate" in shown


def test_live_on_a_terminal_until_it_is_interrupted(e2e, simulated):
    words = "observe", simulated("steady"), "--for", "0", "--every", "1s"
    written, status = on_a_terminal(e2e.PROGRAM, *words, steps=[repainted(4), interrupt])
    live, _, shown = written.partition("\x1b[?1049l")
    assert live.count("\x1b[H") >= 2
    assert "acceptance rate" in shown
    assert status in {0, 3}


def test_a_second_interrupt_ends_it_at_once_and_leaves_the_terminal_as_it_was(e2e, simulated):
    words = "observe", simulated("steady"), "--for", "0", "--every", "1s"
    interrupted = []

    def stop_the_server(*_):
        # The last poll, after the first interrupt, then waits for its answer.
        simulated.newest.signal(signal.SIGSTOP)
        return True

    def interrupt_again(*step):
        interrupted.append(time.monotonic())
        return interrupt(*step)

    steps = [repainted(2), stop_the_server, pause(1), interrupt, pause(1), interrupt_again]
    try:
        written, status = on_a_terminal(e2e.PROGRAM, *words, steps=steps)
    finally:
        simulated.newest.signal(signal.SIGCONT)
    assert status == 130
    assert written.endswith("\x1b[?1049l")
    assert time.monotonic() - interrupted[-1] < e2e.PROMPTLY
