"""Command ``spec-decode-exporter simulate``: serve a simulated vLLM, for demos, drills and tests."""

from __future__ import annotations

import argparse
import asyncio
import math
import signal
import sys
from collections.abc import Mapping
from typing import Final

from yarl import URL

from spec_decode_exporter.cli.event_loop import run_loop
from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.core.tasks import cancel, spawn
from spec_decode_exporter.simulator.request_sender import RequestSender
from spec_decode_exporter.simulator.scenario import load_scenario, scenario_names
from spec_decode_exporter.simulator.simulated_server import PortError, SimulatedServer
from spec_decode_exporter.simulator.simulation import Simulation
from spec_decode_exporter.web.server.listen import ListenAddress, ListenError, parse_listen_address

MAX_SPEED: Final = 1000.0


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the flags of the command."""
    del environ  # no flag of this command has a variable
    parser.add_argument(
        "--scenario",
        default="steady",
        metavar="NAME|FILE",
        help=f"scenario: {', '.join(scenario_names())}, or a YAML file (default: steady)",
    )
    parser.add_argument(
        "--listen-address",
        default=":8000",
        metavar="HOST:PORT",
        help="address of /metrics (default: :8000)",
    )
    parser.add_argument(
        "--speed",
        type=_speed,
        default=1.0,
        metavar="FACTOR",
        help="factor by which simulated time is faster than real time (default: 1)",
    )
    parser.add_argument(
        "--requests.url",
        dest="requests_url",
        type=_exporter,
        metavar="URL",
        help="send the metrics of each request to this exporter, such as http://localhost:7732",
    )


def handle(arguments: argparse.Namespace) -> int:
    """Serve the scenario until SIGINT or SIGTERM; return the exit status."""
    return run_loop(run(arguments))


async def run(arguments: argparse.Namespace) -> int:
    """Serve the scenario until SIGINT or SIGTERM; return the exit status."""
    sender = RequestSender(_print_error) if arguments.requests_url else None
    try:
        scenario = load_scenario(arguments.scenario)
        simulation = Simulation(scenario, answered=sender.take if sender else None)
        address = parse_listen_address(arguments.listen_address)
        server = SimulatedServer(simulation, speed=arguments.speed)
        await server.open(address.host, address.port)
    except (ConfigError, ListenError, PortError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(_started(arguments, address, server))
    sys.stdout.flush()
    sending = spawn(sender.send_for_ever(arguments.requests_url)) if sender else None
    await _until_stopped()
    await cancel([sending])
    await server.close()
    return 0


def _started(arguments: argparse.Namespace, address: ListenAddress, server: SimulatedServer) -> str:
    host = _host(address)
    server_text = f"A simulated vLLM ({arguments.scenario}, speed {arguments.speed:g})"
    return f"{server_text} serves http://{ListenAddress(host, server.port)}/metrics; Ctrl-C ends it.\n"


def _host(address: ListenAddress) -> str:
    """Return the host to print: that of this machine for all interfaces."""
    return "localhost" if address.host in {"", "::", "0.0.0.0"} else address.host


async def _until_stopped() -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()


def _print_error(reason: str) -> None:
    sys.stderr.write(f"{reason}\n")
    sys.stderr.flush()


def _exporter(text: str) -> str:
    try:
        url = URL(text)
    except ValueError:
        url = URL()
    if url.scheme not in {"http", "https"} or not url.host:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an exporter's URL: write one such as http://localhost:7732"
        )
    return text


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not 0 < speed <= MAX_SPEED:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a speed: give a number above 0, at most {MAX_SPEED:g}"
        )
    return speed
