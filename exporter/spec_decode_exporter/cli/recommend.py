"""Command ``spec-decode-exporter recommend``: print the recommended --speculative-config."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Final

from spec_decode_exporter.analysis.verdict import State
from spec_decode_exporter.cli.flags import (
    Flag,
    add_flags,
    duration,
    exporter_url,
    is_given,
    reader,
    reject_pairs,
)
from spec_decode_exporter.cli.observe_config import add_server_arguments, read_config
from spec_decode_exporter.cli.process import require_stdout, write_stdout
from spec_decode_exporter.cli.simulate import simulated
from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.log import configure_log
from spec_decode_exporter.core.number_formats import plural
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.reports.exit_status import ExitStatus
from spec_decode_exporter.reports.observation import watch
from spec_decode_exporter.reports.saved_snapshot import (
    MAX_BYTES,
    SavedEngine,
    SavedFileError,
    SavedSnapshot,
    parsed,
    read,
)
from spec_decode_exporter.reports.text import TextStyle, json_text, printable, render, text_style
from spec_decode_exporter.scrape.client import Client
from spec_decode_exporter.scrape.errors import PollError, StatusError

DESCRIPTION: Final = """\
Print the recommended --speculative-config with the reasons: the number of draft tokens, by load if the cost of
drafting is known at several loads. What is unknown is not printed; the output says what to measure.
"""
EPILOG: Final = """\
exit status:
  0  the setting of every engine that speculates is known
  1  a server, an exporter or a file could not be read
  2  the command line is wrong
  3  the setting of an engine is unknown, or none speculates
"""
FORMATS: Final = ("text", "json", "vllm")
_WAYS: Final = "To know it"  # begin of the sentence with the ways to find out
_PATH: Final = "api/v1/snapshot"
_NO_EXPORTER: Final = "no spec-decode-exporter answers there; name a vLLM without --exporter"
_TIMEOUT: Final = 10.0


def add_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the arguments of the command; ``environ`` has the values of flags that are not set."""
    add_server_arguments(parser, environ)
    sources = (
        Flag("--exporter", "URL", "instead of servers: a running exporter, such as localhost:7732", read=reader(exporter_url)),
        Flag("--snapshot", "FILE", "or a file: a response of /api/v1/snapshot, or the output of observe --format json", read=Path),
        Flag("--format", "FORMAT", "format of the setting (default: text)", choices=FORMATS, default="text"),
        Flag("--for", "DURATION", "time to observe servers (default: 1m)", read=duration(5.0, 86_400.0), default=60.0, kept_as="seconds"),
    )  # fmt: skip
    add_flags(parser, sources)


def handle(arguments: argparse.Namespace) -> int:
    """Print the settings; return the exit status."""
    require_stdout("setting")
    configure_log("critical", "logfmt")
    saved = _saved(arguments)
    write_stdout(written(saved.engines, arguments.format, text_style(sys.stdout, os.environ)))
    missing = [target for target in saved.targets if not target.engines]
    for target in missing:
        words = "; ".join(filter(None, (target.error or "no engine", target.remedy)))
        print(f"spec-decode-exporter: {printable(f'{target.target}: {words}')}", file=sys.stderr)  # noqa: T201
    return ExitStatus.FAILED if missing else recommendation_status(saved.engines)


def _saved(arguments: argparse.Namespace) -> SavedSnapshot:
    servers = arguments.urls or arguments.simulate or is_given(arguments.config_file)
    if sum(map(bool, (servers, arguments.exporter, arguments.snapshot))) > 1:
        raise UsageError("give servers, --exporter or --snapshot: one of the three")
    reject_pairs(arguments, dict.fromkeys(("exporter", "snapshot"), "baseline_prometheus_url"))
    if arguments.snapshot:
        return read(arguments.snapshot)
    return asyncio.run(
        read_snapshot_of(str(arguments.exporter / _PATH)) if arguments.exporter else _observed(arguments)
    )


async def read_snapshot_of(url: str) -> SavedSnapshot:
    """Request the snapshot of an exporter.

    Raises:
        SavedFileError: The exporter does not answer, or its format is that of another version.
    """
    client = Client(HttpSettings(), timeout=_TIMEOUT, max_body=MAX_BYTES)
    body = b""
    try:
        body = (await client.get(url)).body
        return parsed(body)
    except PollError as error:
        is_missing = isinstance(error, StatusError) and error.status == HTTPStatus.NOT_FOUND
        hint = f": {_NO_EXPORTER}" if is_missing else ""
        raise SavedFileError(f"{url}: {printable(error)}{hint}") from None
    except ValueError:
        is_exporter = body.startswith(b"{") and b'"version":' in body
        reason = "the exporter has another version than this command" if is_exporter else _NO_EXPORTER
        raise SavedFileError(f"{url}: {reason}") from None
    finally:
        await client.close()


async def _observed(arguments: argparse.Namespace) -> SavedSnapshot:
    async with AsyncExitStack() as stack:
        if arguments.simulate:
            arguments.simulated, _ = await stack.enter_async_context(simulated(arguments.simulate))
        config = read_config(arguments, os.environ)
        servers, time = plural(len(config.targets), "server"), format_duration(arguments.seconds)
        print(f"observing {servers} for {time} …", file=sys.stderr, flush=True)  # noqa: T201
        observed = await watch(config, arguments.seconds, Clock())
    return SavedSnapshot.model_validate(observed)


def written(engines: Sequence[SavedEngine], form: str, style: TextStyle) -> str:
    """Return the settings of engines in a format, with a final newline. ``vllm`` has texts as comments."""
    if form == "json":
        left_out = {"state", "verdict_text"}
        return json_text({"engines": [each.model_dump(mode="json", exclude=left_out) for each in engines]})
    template = "recommendation.md.jinja" if form == "text" else "recommended_flag.txt"
    texts = [text for each in engines for text in (each.setting.measure, each.setting.text) if _WAYS in text]
    ways = list[str]()
    said: Callable[[str], str] = str
    if len(engines) > 1 and texts:
        ways, said = texts[0].partition(_WAYS)[2].partition(": ")[2].split("; or "), _without_ways
    alike: dict[tuple[str, str], list[SavedEngine]] = {}
    for engine in engines:
        key = _without_ways(engine.setting.text), engine.setting.speculative_config
        alike.setdefault(key, []).append(engine)
    # Of several engines a whole text would be too long to read.
    first: Callable[[str], str] = lambda text: text.partition(". ")[0].removesuffix(".")  # noqa: E731
    names = {"quote": shlex.quote, "said": said, "first": first, "alike": alike.values()}
    return render(template, style, engines=engines, ways=ways, **names)


def _without_ways(text: str) -> str:
    """Return a text up to the ways to find out: several engines have them in common, so they stand once."""
    return text.partition(_WAYS)[0].strip()


def recommendation_status(engines: Sequence[SavedEngine]) -> ExitStatus:
    """Return GOOD if the setting of every engine that speculates is known, else UNKNOWN."""
    speculating = [engine for engine in engines if engine.state is not State.DISABLED]
    known = speculating and all(engine.setting.tokens is not None for engine in speculating)
    return ExitStatus.GOOD if known else ExitStatus.UNKNOWN
