"""The installed program observes simulated servers over real sockets, as a person at a terminal or a script does."""

import os
import pty
import re
import select
import signal
import subprocess
import time
from itertools import chain
from pathlib import Path

import pytest

from tests.contract.docs.documents import blocks
from tests.paths import CHECKOUT


@pytest.fixture(scope="module")
def server(e2e, start):
    """A simulated server whose time passes four times as fast."""
    server = start(e2e.Simulator, "steady", "--speed", 4)
    server.wait_for(server.url)
    return server


def observe(program, *words, shell=""):
    """Run the command; ``shell`` are redirections."""
    command = ["/bin/sh", "-c", f'"$@" {shell}', "sh", program, "observe", *words]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300, check=False)


def on_a_terminal(program, *words, steps=()):
    """Run on a terminal of its own; return its output and its exit status.

    Each step is called with the output so far and the process, several times a second, until it returns true; then the
    next begins.
    """
    process, terminal = pty.fork()
    if not process:
        os.execve(program, [str(program), *map(str, words)], {**os.environ, "TERM": "xterm", "NO_COLOR": ""})
    written, pending = b"", list(steps)
    while True:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                written += os.read(terminal, 65536)
            except OSError:  # it has ended
                break
        if pending and pending[0](written, process):
            del pending[0]
    os.close(terminal)
    _, status = os.waitpid(process, 0)
    return written.decode(), os.waitstatus_to_exitcode(status)


def send(number):
    """Return a step that sends a signal, and one that waits until the process has it: two that wait are one."""

    def sent(_, process):
        os.kill(process, number)
        return True

    def taken(_, process):
        status = Path(f"/proc/{process}/status").read_text()
        return not int(status.partition("ShdPnd:")[2].split()[0], 16) & 1 << number - 1

    return sent, taken


def observed(seconds):
    """Return a step that ends when progress shows N seconds: polls enough for an acceptance rate."""
    return lambda written, _: any(
        int(shown) >= seconds for shown in re.findall(rb"\r\D*(\d+) (?:of|s) ", written)
    )


def done(action):
    """Return a step that does something once."""
    return lambda *_: action() or True


@pytest.mark.parametrize(
    ("shell", "said"),
    [
        (">/dev/full", "standard output cannot be written: No space left on device"),
        (">&-", "there is no standard output to write the report to"),
    ],
)
def test_a_report_that_cannot_be_written_is_one_line_and_status_1(server, e2e, shell, said):
    found = observe(e2e.PROGRAM, server.url, "--for", "2s", shell=shell)
    assert (found.stderr, found.returncode) == (f"spec-decode-exporter: {said}\n", 1)


@pytest.mark.parametrize("numbers", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGTERM] * 2], ids=str)
def test_an_interrupted_observation_shows_progress_and_is_reported(e2e, server, numbers):
    """GNU timeout signals the process, and then its group with the process in it: two signals at once are one."""
    # The last poll waits for its answer, so that a second signal comes before the report.
    steps = [observed(7), done(lambda: server.signal(signal.SIGSTOP)), *chain(*map(send, numbers))]
    steps.append(done(lambda: server.signal(signal.SIGCONT)))
    written, status = on_a_terminal(e2e.PROGRAM, "observe", server.url, "--for", "10m", steps=steps)
    progress, _, shown = written.rpartition("\r\x1b[K")
    assert "of 10m" in progress
    assert "\n" not in progress
    assert "acceptance rate" in shown
    assert status in {0, 3}


def test_a_second_interrupt_ends_it_at_once_and_leaves_the_terminal_as_it_was(e2e, server):
    begin = []
    # The last poll, after the first interrupt, waits for its answer.
    stopped = done(lambda: server.signal(signal.SIGSTOP))
    noted = done(lambda: begin.append(time.monotonic()))
    steps = [observed(2), stopped, *send(signal.SIGINT), noted, *send(signal.SIGINT)]
    words = "observe", server.url, "--for", "0"
    try:
        written, status = on_a_terminal(e2e.PROGRAM, *words, steps=steps)
    finally:
        server.signal(signal.SIGCONT)
    assert status == 130
    assert written.endswith("\r\x1b[K")
    assert time.monotonic() - begin[0] < e2e.PROMPTLY


def test_the_report_in_the_readme_is_what_its_command_prints(e2e, start):
    """Its numbers differ by chance, and with them the word for what is likely."""
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    (command,) = (
        line for line in readme.splitlines() if line.startswith("$ spec-decode-exporter observe localhost")
    )
    server = start(e2e.Simulator, "unknown-cost", name="readme")
    server.wait_for(server.url)
    _, _, address, *words = command.removeprefix("$ ").partition(" #")[0].split()
    assert address == "localhost:8000"
    found = observe(e2e.PROGRAM, server.url, *words, "--for", "30s")
    (sample,) = blocks(readme, "text")
    report = found.stdout.replace(server.url.removesuffix("/metrics"), "http://localhost:8000")
    texts = report, *re.split(r"\n\n|…", sample)
    worded = (re.sub(r"probably pays|may pay or not", "is unclear", text) for text in texts)
    # Numbers differ, and so do the spaces that depend on them.
    (printed, *parts) = (" ".join(re.sub(r"[\d.,]+", "#", text).split()) for text in worded)
    assert [part for part in parts if part not in printed] == []
