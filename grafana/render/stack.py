"""The stack without containers: simulated servers, the exporter and Prometheus, as processes on loopback."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from grafana.render.fleet import FLEET, Server

ROOT = Path(__file__).parents[2]
PROGRAM = Path(sys.executable).with_name("spec-decode-exporter")


def free_port() -> int:
    """Return a port of loopback that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _scenario(server: Server, folder: Path) -> Path:
    """Write the server's own version of a scenario of the simulator."""
    source = resources.files("spec_decode_exporter.simulator").joinpath("scenarios", f"{server.scenario}.yml")
    text: Mapping[str, Any] = yaml.safe_load(source.read_text(encoding="utf-8"))
    path = folder / f"{server.name}.yml"
    path.write_text(yaml.safe_dump({**text, "model_name": server.model, **server.changes}), encoding="utf-8")
    return path


def _prometheus(scraped: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    rules = ROOT / "config" / "prometheus"
    configs = [{"targets": [address], "labels": dict(labels)} for address, labels in scraped.items()]
    return {
        "global": {"scrape_interval": "5s", "evaluation_interval": "10s"},
        "rule_files": [str(rules / "rules" / "*.yml"), str(rules / "alerts" / "*.yml")],
        "scrape_configs": [{"job_name": "spec-decode", "static_configs": configs}],
    }


class Stack:
    """The running processes; all end with the context."""

    def __init__(self, folder: Path) -> None:
        self.prometheus = f"http://127.0.0.1:{free_port()}"
        self.exporter = f"127.0.0.1:{free_port()}"
        """The address of the exporter that watches the fleet, which is its label ``instance``."""
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []

    def _start(self, name: str, *command: str | Path) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)  # noqa: S603
            self._running.append(process)

    def _simulate(self, server: Server) -> dict[str, Any]:
        address = f"127.0.0.1:{free_port()}"
        scenario = _scenario(server, self._folder)
        sending = ("--requests.url", f"http://{self.exporter}") if server.sends else ()
        self._start(
            server.name, PROGRAM, "simulate", "--scenario", scenario, "--listen-address", address, *sending
        )
        return server.target(f"http://{address}/metrics")

    def _watch(self, name: str, targets: list[dict[str, Any]], address: str) -> str:
        """Start an exporter; return its address."""
        config = self._folder / f"{name}.exporter.yml"
        told = {"targets": targets, "requests": {"ingest": True}}
        config.write_text(yaml.safe_dump(told), encoding="utf-8")
        self._start(name, PROGRAM, "run", "--config.file", config, "--web.listen-address", address)
        return address

    def _scrape(self, scraped: Mapping[str, Mapping[str, str]]) -> None:
        program, config = shutil.which("prometheus"), self._folder / "prometheus.json"
        if program is None:
            sys.exit("prometheus is not installed")
        config.write_text(json.dumps(_prometheus(scraped)), encoding="utf-8")
        address = self.prometheus.removeprefix("http://")
        self._start(
            "prometheus",
            program,
            f"--config.file={config}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address={address}",
        )

    def start(self) -> None:
        """Start everything: one exporter for the fleet, and one beside each arm of the experiment."""
        told = [(server, self._simulate(server)) for server in FLEET]
        fleet = [target for server, target in told if not server.arm]
        self._watch("exporter", fleet, self.exporter)
        arms = {
            self._watch(f"{server.name}-exporter", [target], f"127.0.0.1:{free_port()}"): {"arm": server.arm}
            for server, target in told
            if server.arm
        }
        self._scrape({self.exporter: {}, **arms})

    def stop(self) -> None:
        """End everything."""
        for process in reversed(self._running):
            process.terminate()
        for process in self._running:
            process.wait(timeout=20)


@contextlib.contextmanager
def stack(folder: Path) -> Iterator[Stack]:
    """Run the stack; its logs and data are in the folder."""
    processes = Stack(folder)
    try:
        processes.start()
        yield processes
    finally:
        processes.stop()
