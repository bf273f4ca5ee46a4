"""Command lines and environments with speculation settings, at their bounds. They are never executed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from spec_decode_exporter.config.batch_schedule import MAX_RANGES, SCHEDULE_KEY
from spec_decode_exporter.discovery.vllm_command_line import (
    MAX_COMMAND_CHARACTERS,
    MAX_SCRIPT,
    MAX_WORDS,
    config_speculation,
    pod_speculation,
)
from tests.robustness.inputs.row import RejectedError, Row
from tests.robustness.inputs.server_details import ranges


def pod(words: list[str], environ: Mapping[str, str] | None = None) -> bytes:
    """Return the words and the environment of a container for ``read_pod``."""
    return json.dumps({"words": words, "environ": environ or {}}).encode()


SETTINGS: Final = ("-sc", '{"method":"mtp"}')


async def read_pod(spec: bytes) -> object:
    """Read the speculation settings of a container."""
    found = pod_speculation(**json.loads(spec))
    if found is None or found.problem:
        raise RejectedError(found.problem if found else "not read: nothing about speculation")
    return found


async def read_speculative_config(text: bytes) -> object:
    """Read the value of ``--speculative.config``."""
    try:
        return config_speculation(text.decode())
    except ValueError as error:
        raise RejectedError(str(error)) from None


def script(filling: str, size: int = MAX_SCRIPT) -> str:
    """Return a script of a size with speculation settings at its end."""
    head, tail = "x ", '-sc \'{"method":"mtp"}\''
    room = size - len(head) - len(tail)
    return head + filling * (room // len(filling)) + " " * (room % len(filling)) + tail


ROWS: Final = (
    Row(
        name="command line of a pod",
        read=read_pod,
        worst={
            "words": lambda: pod([*["-sc", "1"] * (MAX_WORDS // 2 - 1), *SETTINGS]),
            "references": lambda: pod([*["$(A)" * 4000] * 3, *SETTINGS], {"A": "1"}),
            "nesting": lambda: pod([*["-sc", "[" * 15_000] * 4, *SETTINGS]),
            "a script of marks": lambda: pod(["sh", "-c", script("; ")]),
            "a script of quotes": lambda: pod(["sh", "-c", script("'' ")]),
        },
        beyond={
            "words": lambda: pod([*SETTINGS, *[""] * MAX_WORDS]),
            "characters": lambda: pod([*SETTINGS, "x" * MAX_COMMAND_CHARACTERS]),
            "characters of a script": lambda: pod(["sh", "-c", script(" ", MAX_SCRIPT + 1)]),
            "ranges": lambda: pod(["-sc", json.dumps({SCHEDULE_KEY: [[1, 1, 1]] * (MAX_RANGES + 1)})]),
        },
    ),
    Row(
        name="environment variables of a pod",
        read=read_pod,
        worst={
            "the most variables": lambda: pod(
                [*SETTINGS], {f"V{number}": "x" for number in range(MAX_WORDS - 2)}
            ),
            "a script of short words": lambda: pod([], {"V": script("a ")}),
            "one that is put in again and again": lambda: pod(
                ["sh", "-c", script("$A ", 300)], {"A": "-" + " -" * 60}
            ),
        },
        beyond={
            "variables": lambda: pod([*SETTINGS], {f"V{number}": "x" for number in range(MAX_WORDS)}),
            "characters": lambda: pod([*SETTINGS], {"V": "x" * MAX_COMMAND_CHARACTERS}),
            "characters that are put in": lambda: pod(["sh", "-c", script("$A ")], {"A": "-" + " -" * 8000}),
        },
    ),
    Row(
        name="`--speculative.config`",
        read=read_speculative_config,
        worst={
            "an object of many keys": lambda: json.dumps(
                {"method": "mtp", **{f"{key:x}": {} for key in range(1400)}}
            ).encode(),
            "the longest schedule": lambda: json.dumps(
                {"method": "mtp", SCHEDULE_KEY: list(ranges())}
            ).encode(),
        },
        beyond={
            "bytes": lambda: b"{" + b" " * MAX_COMMAND_CHARACTERS + b'"method":"mtp"}',
            "ranges": lambda: json.dumps(
                {"method": "mtp", SCHEDULE_KEY: [[1, 1, 1]] * (MAX_RANGES + 1)}
            ).encode(),
        },
    ),
)
