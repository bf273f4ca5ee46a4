"""Speculation settings from outside: ``/version`` and ``/server_info``, and the commands of pods, which never run."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from functools import partial
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
from spec_decode_exporter.scrape.poll_record import Polled, PollRecord
from spec_decode_exporter.scrape.poller import MAX_RESPONSE_BYTES, PollBudget, Poller
from tests.robustness.inputs.row import Make, RejectedError, Row, as_json
from tests.robustness.inputs.server_pages import MAX_BODY, answer, page, received


class _Server:
    """Client of a server that returns given bytes for one of its pages."""

    spent = 0.0

    def __init__(self, detail: str, body: bytes) -> None:
        self._detail = detail
        self._body = body

    async def get(self, address: str, *, max_body: int | None = None) -> HttpResponse:
        if "/metrics" in address:
            return HttpResponse(page(()), "text/plain", 0.001)
        if f"/{self._detail}" not in address:
            raise StatusError(HTTPStatus.NOT_FOUND)
        return HttpResponse(received(answer(self._body), max_body or MAX_BODY), "application/json", 0.001)


async def _polled(detail: str, body: bytes) -> PollRecord:
    """Poll once a server that returns these bytes for a detail; return the record."""

    def receive(_: Polled) -> Generator[None, None, bool]:
        yield
        return False

    record, reasons = PollRecord(), []
    poller = Poller(
        "a", "http://a/metrics",
        client=_Server(detail, body),
        poll=Poll(), shortest_window=30.0, histogram_phase=0.0,
        budget=PollBudget(),
        clock=Clock(),
        receive=receive,
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


def detail(known: str, filling: str, last: str, size: int = MAX_RESPONSE_BYTES) -> bytes:
    """Return JSON of a size: the wanted keys, and an unknown key filled with repeated JSON."""
    head, tail = f'{{{known},"x":[', f"{last}]}}"
    room = size - len(head) - len(tail)
    return (head + filling * (room // len(filling)) + " " * (room % len(filling)) + tail).encode()


def details(known: str) -> Mapping[str, Make]:
    """Return the costliest valid response of the maximum size."""
    return {"empty objects": partial(detail, known, "{},", "{}")}


def speculation(*ranges: tuple[int, int, int]) -> str:
    """Return vLLM's settings with a schedule, as the key of an object."""
    settings = {"method": "mtp", "num_speculative_tokens": 3, SCHEDULE_KEY: ranges}
    return f'"vllm_config":{{"speculative_config":{json.dumps(settings)}}}'


def ranges(number: int = MAX_RANGES) -> Iterator[tuple[int, int, int]]:
    """Yield ``number`` adjacent ranges."""
    width = MAX_BATCH // MAX_RANGES
    return ((1 + place * width, (place + 1) * width, place % 2) for place in range(number))


def schedule_info(*ranges_: tuple[int, int, int]) -> bytes:
    """Return a response to ``/server_info`` with a schedule."""
    return f"{{{speculation(*ranges_)}}}".encode()


def info_as_text() -> bytes:
    """Return a response in text that repeats the start of the searched pattern."""
    begin, end = "speculative_config=SpeculativeConfig(method='", "mtp', model=None, num_spec_tokens=3)"
    frame = json.dumps({"vllm_config": ""})
    return json.dumps(
        {"vllm_config": begin * ((MAX_RESPONSE_BYTES - len(frame) - len(end)) // len(begin)) + end}
    ).encode()


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


ROWS: Final = (
    Row(
        "`/version` of a target",
        read_version,
        worst=details('"version":"1"'),
        beyond={
            "bytes": partial(detail, '"version":"1"', "1,", "1", MAX_RESPONSE_BYTES + 1),
            "characters": as_json({"version": "1" * 257}),
        },
    ),
    Row(
        "`/server_info` of a target",
        read_server_info,
        worst={
            "the longest schedule": lambda: schedule_info(*ranges()),
            "text that almost matches again and again": info_as_text,
            **details(speculation(*ranges(8))),
        },
        beyond={
            "bytes": partial(detail, speculation(), "1,", "1", MAX_RESPONSE_BYTES + 1),
            "ranges": lambda: schedule_info(*ranges(MAX_RANGES), (MAX_BATCH, MAX_BATCH, 1)),
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
