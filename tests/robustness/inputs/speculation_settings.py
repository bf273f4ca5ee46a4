"""Speculation settings from outside: ``/version`` and ``/server_info``, and the commands of pods, which never run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from spec_decode_exporter.config.batch_schedule import MAX_BATCH, MAX_RANGES, SCHEDULE_KEY
from spec_decode_exporter.config.schema import Poll
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.discovery.vllm_command_line import (
    MAX_COMMAND_CHARACTERS,
    MAX_WORDS,
    pod_speculation,
)
from spec_decode_exporter.scrape.client import HttpResponse
from spec_decode_exporter.scrape.errors import StatusError
from spec_decode_exporter.scrape.poll_record import PollRecord
from spec_decode_exporter.scrape.poller import MAX_RESPONSE_BYTES, PollBudget, Poller
from tests.robustness.inputs.row import Make, RejectedError, Row, as_json, filled
from tests.robustness.inputs.server_pages import MAX_BODY, answer, page, received


@dataclass
class _Server:
    """Client of a server that returns given bytes for one of its pages."""

    detail: str
    body: bytes
    spent: float = 0.0

    async def get(self, address: str, *, max_body: int | None = None) -> HttpResponse:
        if "/metrics" in address:
            return HttpResponse(page(()), "text/plain", 0.001)
        if f"/{self.detail}" not in address:
            raise StatusError(HTTPStatus.NOT_FOUND)
        return HttpResponse(received(answer(self.body), max_body or MAX_BODY), "application/json", 0.001)


async def _polled(detail: str, body: bytes) -> PollRecord:
    """Poll once a server that returns these bytes for a detail; return the record."""
    record, reasons = PollRecord(), []
    poller = Poller(
        "a", "http://a/metrics",
        client=_Server(detail, body),
        poll=Poll(), shortest_window=30.0, histogram_phase=0.0,
        budget=PollBudget(),
        clock=Clock(),
        receive=lambda _: iter(()),
        emit=lambda event: reasons.append(str(event.fields.get("reason"))),
        attempted=lambda: None,
        record=record,
    )  # fmt: skip
    await poller.poll()
    assert record.up, record.message
    if record.noted:
        raise RejectedError(reasons[0])
    return record


async def read_version(body: bytes) -> object:
    """Request a server's version."""
    record = await _polled("version", body)
    if not record.version:
        raise RejectedError("no version")
    return record.version


async def read_server_info(body: bytes) -> object:
    """Request a server's speculation settings."""
    record = await _polled("server_info", body)
    if record.speculation is None:
        raise RejectedError("nothing about speculation")
    return record.speculation


def info(*schedule: tuple[int, int, int]) -> bytes:
    """Return a response to ``/server_info``: vLLM's settings with a schedule."""
    settings = {"method": "mtp", "num_speculative_tokens": 3, SCHEDULE_KEY: schedule}
    return json.dumps({"vllm_config": {"speculative_config": settings}}).encode()


WIDTH: Final = MAX_BATCH // MAX_RANGES
RANGES: Final = [(1 + place * WIDTH, (place + 1) * WIDTH, place % 2) for place in range(MAX_RANGES)]
"""As many adjacent ranges as a schedule may have."""


def pod(words: list[str], environ: Mapping[str, str] | None = None) -> Make:
    """Return the words and the environment of a container for ``read_pod``."""
    return as_json({"words": words, "environ": environ or {}})


SETTINGS: Final = ("-sc", '{"method":"mtp"}')


async def read_pod(spec: bytes) -> object:
    """Read the speculation settings of a container."""
    found = pod_speculation(**json.loads(spec))
    if found is None or found.problem:
        raise RejectedError(found.problem if found else "not read: nothing about speculation")
    return found


def script(filling: str, size: int = MAX_COMMAND_CHARACTERS - len("sh-c$")) -> str:
    """Return a script of a size with speculation settings at its end."""
    head, tail = "x ", '-sc \'{"method":"mtp"}\''
    room = size - len(head) - len(tail)
    return head + filling * (room // len(filling)) + " " * (room % len(filling)) + tail


VERSION: Final = b'{"version":"1","x":['
PATTERN: Final = b"speculative_config=SpeculativeConfig(method='"

ROWS: Final = (
    Row(
        "`/version` of a target",
        read_version,
        worst={"empty objects": filled(VERSION, b"{},", b"{}]}", MAX_RESPONSE_BYTES)},
        beyond={
            "bytes": filled(VERSION, b"1,", b"1]}", MAX_RESPONSE_BYTES + 1),
            "characters": as_json({"version": "1" * 257}),
        },
    ),
    Row(
        "`/server_info` of a target",
        read_server_info,
        worst={
            "the longest schedule": lambda: info(*RANGES),
            "text that almost matches again and again": filled(
                b'{"vllm_config":"' + PATTERN,
                PATTERN,
                b"mtp', model=None, num_spec_tokens=3)\"}",
                MAX_RESPONSE_BYTES,
            ),
            "empty objects": filled(info(*RANGES[:8])[:-1] + b',"x":[', b"{},", b"{}]}", MAX_RESPONSE_BYTES),
        },
        beyond={
            "bytes": filled(info()[:-1] + b',"x":[', b"1,", b"1]}", MAX_RESPONSE_BYTES + 1),
            "ranges": lambda: info(*RANGES, (MAX_BATCH, MAX_BATCH, 1)),
        },
    ),
    Row(
        "command line and environment of a pod",
        read_pod,
        worst={
            "words": pod([*["-sc", "1"] * (MAX_WORDS // 2 - 1), *SETTINGS]),
            "references": pod([*["$(A)" * 2500] * 3, *SETTINGS], {"A": "1"}),
            "a script of marks": pod(["sh", "-c", script("; ")]),
            "variables that name each other": pod(
                [], {"ARGS": f'{"$A " * 40}-sc \'{{"method":"mtp"}}\'', "A": "$B " * 40, "B": "$A " * 40}
            ),
        },
        beyond={
            "words": pod([*SETTINGS, *[""] * MAX_WORDS]),
            "characters": pod([*SETTINGS, "x" * MAX_COMMAND_CHARACTERS]),
            "characters that are put in": pod(
                ["sh", "-c", "serve $A"], {"A": script("a ", MAX_COMMAND_CHARACTERS - 20)}
            ),
            "ranges": pod(["-sc", json.dumps({SCHEDULE_KEY: [[1, 1, 1]] * (MAX_RANGES + 1)})]),
        },
    ),
)
