"""Attacks on the installed program with each input of the table, measured by ``scene``."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from tests.robustness.scene import Attack, Server
from tests.robustness.serve import OWN_ADDRESS, good_page
from tests.robustness.table import BY_NAME

Place = Callable[[bytes], Attack]

_JSON: Final = ("Content-Type: application/json",)
_LAYOUTS: Final = 4
"""Orders of the lines of a page, so that no poll finds the layout of the last one."""
_RESTARTS: Final = [good_page(polls) for polls in (9, 5, 1)]
"""Pages whose counters begin again with every poll."""


def _hostile_target(server: Server, **more: Any) -> Attack:
    """Monitor the server as a tenth target."""
    return Attack(server, {"targets": [{"url": "{url}/metrics", "name": "hostile"}], **more})


def _page(body: bytes) -> Attack:
    return _hostile_target(Server({"/metrics": list(_in_other_orders(body))}))


def _in_other_orders(body: bytes) -> Iterator[bytes]:
    lines = body.splitlines(keepends=True)
    yield body
    for seed in range(1, _LAYOUTS):
        random.Random(seed).shuffle(lines)
        yield b"".join(lines)


def _detail(path: str) -> Place:
    return lambda body: _hostile_target(Server({"/metrics": _RESTARTS, path: [body]}, _JSON))


def _http_list(body: bytes) -> Attack:
    discovery = {"http": [{"url": "{url}/list", "refresh_interval": "1s"}]}
    return Attack(Server({"/list": [body, body + b" "]}, _JSON), {"discovery": discovery})


def _file_list(name: str) -> Place:
    return lambda body: Attack(config={"discovery": {"files": [name]}}, files={name: body})


def _pods(body: bytes) -> Attack:
    discovery = {"kubernetes": [{"api_server": "{url}", "namespaces": ["default"]}]}
    return Attack(Server({"/api/v1/namespaces/default/pods": [body]}, _JSON), {"discovery": discovery})


def _sent(body: bytes) -> Attack:
    return Attack(config={"requests": {"ingest": True}}, requests=[body])


PLACES: Final[Mapping[str, Place]] = {
    "metrics page of a target": _page,
    "names of models and engines on a page": _page,
    "`/version` of a target": _detail("/version"),
    "`/server_info` of a target": _detail("/server_info"),
    "http_sd list": _http_list,
    "file_sd list in JSON": _file_list("list.json"),
    "file_sd list in YAML": _file_list("list.yml"),
    "Kubernetes list of pods": _pods,
    "body of POST /api/v1/requests": _sent,
}
"""By the name of the row. The other inputs reach the program once, at its start, or as a part of these."""
CLIENTS: Final = (
    *("request line and headers", "Accept and Accept-Encoding", "query of the API", "query of the page"),
    "since of the events",
)
"""Rows that any client may send."""


class Trial(NamedTuple):
    """Attack with one or several inputs of the table."""

    row: str
    case: str
    attack: Callable[[], Attack]


def trials() -> list[Trial]:
    """Return an attack with the worst input of each place, with those of all clients at once, and combined ones."""
    worst = {name: next(iter(BY_NAME[name].worst.items())) for name in PLACES}
    placed = [Trial(name, case, partial(_placed, name, make)) for name, (case, make) in worst.items()]
    return [*placed, Trial("requests of clients", "all", _all_requests), *COMBINED]


def _placed(name: str, make: Callable[[], bytes]) -> Attack:
    return PLACES[name](make())


def _all_requests() -> Attack:
    return Attack(requests=[make() for name in CLIENTS for make in BY_NAME[name].worst.values()])


def _many_engines_behind_many_names() -> Attack:
    """List 1,000 pages of one server, each with the maximum number of engines."""
    paths = [f"/metrics/{number}" for number in range(1_000)]
    groups = [{"targets": [OWN_ADDRESS], "labels": {"__metrics_path__": path}} for path in paths]
    pages = [_engines(polls) for polls in range(1, 5)]
    server = Server({"/list": [json.dumps(groups).encode()], "/metrics": pages}, _JSON, every_path="/metrics")
    return Attack(server, {"discovery": {"http": [{"url": "{url}/list"}]}})


def _engines(polls: int, engines: int = 256) -> bytes:
    return b"".join(
        good_page(polls).replace(b'engine="0"', b'engine="%d"' % number) for number in range(engines)
    )


def _new_engines_with_every_poll() -> Attack:
    pages = [_engines(1, 200).replace(b'"good"', b'"model-%d"' % number) for number in range(20)]
    return _hostile_target(Server({"/metrics": pages}))


def _pages_in_a_loop(path: bytes, accept_encoding: bytes) -> Attack:
    head = b"GET %b HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: %b\r\n\r\n" % (path, accept_encoding)
    config = {"targets": [{"url": "{url}/metrics", "name": "hostile"}]}
    server = Server({"/metrics": [_engines(polls) for polls in range(1, 5)]})
    return Attack(server, config, requests=[head])


COMBINED: Final[Sequence[Trial]] = (
    Trial("several inputs", "1,000 pages of 256 engines in one list", _many_engines_behind_many_names),
    Trial("several inputs", "200 new engines with every poll", _new_engines_with_every_poll),
    Trial("several inputs", "40 clients of /metrics, 256 engines", lambda: _pages_in_a_loop(b"/metrics", b"gzip")),
    Trial("several inputs", "40 clients of the page, 256 engines", lambda: _pages_in_a_loop(b"/", b"identity")),
    Trial("several inputs", "40 clients of the snapshot, 256 engines", lambda: _pages_in_a_loop(b"/api/v1/snapshot", b"identity")),
)  # fmt: skip
