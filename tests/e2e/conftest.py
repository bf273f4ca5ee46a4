"""Real processes on loopback.

Tests wait for conditions, not for durations. A ceiling ends a wait whose condition never comes; it is generous, because
other programs may keep the machine busy.
"""

import contextlib
import functools
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

PROGRAM = Path(sys.executable).with_name("spec-decode-exporter")
CEILING = 600.0  # seconds after which a condition is considered never to come
PROMPTLY = 30.0
"""Seconds in which a process ends, whatever else the machine does: Kubernetes kills it then. What could hold it takes 60 s."""


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(2 * CEILING))


def _ports():
    """Yield free ports of loopback outside the range of outgoing connections.

    Each is given once, and no other worker of pytest gives it: what binds it late, or again, finds it free. The three
    that follow are free too, for programs with several.
    """
    worker, workers = int(os.environ.get("PYTEST_XDIST_WORKER", "gw7")[2:]) % 8, 8
    ports = list(range(20_000 + 4 * worker, 32_000, 4 * workers))
    random.shuffle(ports)
    for port in ports:
        with contextlib.suppress(OSError):
            socket.create_server(("127.0.0.1", port)).close()
            yield port


free_port = functools.partial(next, _ports())


def fetch(url, method="GET", body=None, **headers):
    """Return status, headers and body, whatever the status is; ``body`` is what is sent, as JSON."""
    sent = None if body is None else json.dumps(body).encode()
    headers |= {} if body is None else {"Content-Type": "application/json"}
    request = urllib.request.Request(url, sent, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=CEILING) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read().decode()


def eventually(check, within=CEILING, *, what="", every=0.2):
    """Return the first true result of ``check``, called several times a second; fail with its last result."""
    deadline = time.monotonic() + within
    while True:
        try:
            result = check()
        except OSError as error:
            result, problem = None, error
        else:
            problem = result
        if result:
            return result
        assert time.monotonic() < deadline, (
            f"not within {within} s: {what or check}; the last was {problem!r}"
        )
        time.sleep(every)


class Running:
    """A started process and its output."""

    def __init__(self, name, command, folder, **environ):
        self.name, self.log_path = name, folder / f"{name}.log"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [*map(str, command)],
                stdout=log,
                stderr=log,
                cwd=folder,
                env={**os.environ, **environ},
                start_new_session=True,
            )

    @property
    def log(self):
        return self.log_path.read_text(encoding="utf-8")

    def wait_for(self, url):
        """Wait until the URL is answered with 200; fail when the process ends before."""
        eventually(lambda: self.process.poll() is not None or fetch(url)[0] == 200, what=url)
        assert self.process.poll() is None, f"{self.name} has ended:\n{self.log}"

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self, patience=CEILING):
        """Send SIGTERM; return the exit status and the seconds until the end, or kill it when that takes too long."""
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=patience)
        return self.kill(), time.monotonic() - begin

    def kill(self):
        """End it and the processes that it has started, as an out-of-memory killer would; return the exit status."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()


class Exporter(Running):
    """The installed program with a configuration file."""

    def __init__(self, folder, config, *flags, name="exporter", port=None):
        self.config_path = folder / f"{name}.yml"
        self.config_path.write_text(config)
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        address = ("--web.listen-address", f"127.0.0.1:{self.port}")
        super().__init__(name, [PROGRAM, "run", "--config.file", self.config_path, *address, *flags], folder)

    def metrics(self):
        status, _, page = fetch(f"{self.url}/metrics")
        assert status == 200
        return page

    def value(self, name, **labels):
        """Return the sum over a metric's samples with these labels; None if there is none."""
        found = [
            sample.value
            for family in text_string_to_metric_families(self.metrics())
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return sum(found) if found else None


class Simulator(Running):
    """A stand-in vLLM, as users start it."""

    def __init__(self, folder, scenario, *flags, name="simulator", port=None):
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}/metrics"
        address = ("--listen-address", f"127.0.0.1:{self.port}")
        super().__init__(name, [PROGRAM, "simulate", "--scenario", scenario, *address, *flags], folder)


class Prometheus(Running):
    """A real Prometheus.

    It scrapes every two seconds, and ``jobs`` maps names to lists of ``host:port``; or it does what ``config`` says.
    """

    def __init__(self, folder, jobs=None, name="prometheus", config=None):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        path = folder / f"{name}.json"
        scraped = [
            {"job_name": job, "static_configs": [{"targets": targets}]}
            for job, targets in (jobs or {}).items()
        ]
        often = {"scrape_interval": "2s", "scrape_timeout": "2s"}
        path.write_text(json.dumps(config or {"global": often, "scrape_configs": scraped}))
        super().__init__(
            name,
            [
                shutil.which("prometheus"),
                f"--config.file={path}",
                f"--storage.tsdb.path={folder / f'{name}.tsdb'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            folder,
        )

    def query(self, expression):
        """Return the samples of an instant query as pairs of labels and value."""
        asked = urllib.parse.urlencode({"query": expression})
        status, _, body = fetch(f"{self.url}/api/v1/query?{asked}")
        assert status == 200, body
        return [(row["metric"], float(row["value"][1])) for row in json.loads(body)["data"]["result"]]

    def value(self, expression):
        """Return the value of a query that gives one sample; None if it gives none."""
        found = self.query(expression)
        assert len(found) <= 1, found
        return found[0][1] if found else None


class PrometheusWithHistory(Running):
    """A real Prometheus that scrapes nothing: promtool has made its blocks from a stored history."""

    def __init__(self, folder, stored, *flags, name="history"):
        text, data, config = (folder / f"{name}.{end}" for end in ("om", "tsdb", "json"))
        text.write_text(stored.open_metrics())
        config.write_text("{}")
        imported = ["promtool", "tsdb", "create-blocks-from", "openmetrics", text, data]
        subprocess.run(imported, check=True, stdout=subprocess.DEVNULL)
        port = free_port()
        self.url, self.begin = f"http://127.0.0.1:{port}", stored.start
        words = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={data}", *flags]
        super().__init__(name, [*words, f"--web.listen-address=127.0.0.1:{port}"], folder)
        self.wait_for(f"{self.url}/-/ready")


@pytest.fixture(scope="session")
def prometheus_tools():
    """Skip where Prometheus is not installed."""
    for tool in ("prometheus", "promtool"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: apt-get install prometheus, or another package with it")


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Start a process of a class above; all of them end with the module."""
    folder, running = tmp_path_factory.mktemp("e2e"), []

    def start(kind, *args, **options):
        running.append(kind(folder, *args, **options))
        return running[-1]

    yield start
    for process in reversed(running):
        process.stop()


@pytest.fixture(scope="module")
def e2e():
    """Return this module: tests cannot import a conftest."""
    return sys.modules[__name__]
