"""What a model server sends, and what its pod and its environment say: the inputs at their bounds."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final

from exporter.clock import SystemClock
from exporter.config.poll_settings import Poll
from exporter.scrape.answer import FRAMING_LIMIT, LEAST_PIECES, PIECE, AnswerParser
from exporter.scrape.batch_schedule import KEY, MOST_BATCH, MOST_RANGES
from exporter.scrape.client import Answer
from exporter.scrape.errors import PollError, StatusError
from exporter.scrape.page import MOST_LABELS, MOST_LABELS_OF_ONE, MOST_LINE, MOST_LINES, MOST_SERIES, SLICE
from exporter.scrape.plan import (
    MOST_BUCKETS,
    MOST_ENGINES,
    MOST_NAME,
    MOST_NAMES_TOGETHER,
    MOST_POSITIONS,
    MOST_POSITIONS_TOGETHER,
)
from exporter.scrape.poller import DETAILS_EVERY, Pace, Polled, Poller, PollRecord
from exporter.scrape.reader import Reader
from exporter.scrape.schedule import LARGEST_SHARE, PROCESSOR_SHARE
from exporter.scrape.server_info import MOST_ANSWER
from exporter.scrape.slices import Pausing, giving_way
from exporter.targets.arguments import MOST_SCRIPT, MOST_TEXT, MOST_WORDS, config_speculation, pod_speculation
from tests.hostile.row import RejectedError, Row

MOST_BODY: Final = Poll().max_body
KIB: Final = 1024
HISTOGRAMS: Final = (
    "time_to_first_token", "request_time_per_output_token", "inter_token_latency", "e2e_request_latency",
    "request_queue_time",
)  # fmt: skip
DRAFTS: Final = "vllm:spec_decode_num_drafts_total"
PREEMPTIONS: Final = "vllm:num_preemptions_total"
ENGINE: Final = 'engine="0",model_name="m"'
CPU: Final = (
    f"slices of {SLICE} samples; {PROCESSOR_SHARE:.0%} of a core for each target, else a longer interval, "
    f"of at most 1/{1 / LARGEST_SHARE:.0f} of the shortest window"
)
FAILED: Final = "the poll fails with its reason; `target_failing` once, then polls back off"


def page(lines: Iterable[str]) -> bytes:
    """Join lines to a page that shows at least one engine."""
    return "\n".join([f"{DRAFTS}{{{ENGINE}}} 1", *lines, ""]).encode()


def shuffled(lines: list[str], seed: int = 1) -> bytes:
    """Return the page in another order for each seed: no layout is known from the page before."""
    random.Random(seed).shuffle(lines)
    return page(lines)


def engines(number: int, positions: int, model: str = "m{}") -> list[str]:
    """Return the lines of engines with so many draft positions each."""
    stem = "vllm:spec_decode_num_"
    lines = []
    for engine in range(number):
        labels = f'engine="{engine}",model_name="{model.format(engine)}"'
        lines += [
            f"{stem}{name}_total{{{labels}}} 900" for name in ("drafts", "draft_tokens", "accepted_tokens")
        ]
        each = f"{stem}accepted_tokens_per_pos_total{{{labels},position="
        lines += [f'{each}"{position}"}} 9' for position in range(positions)]
    return lines


def buckets(engines_: int, number: int) -> list[str]:
    """Return the lines of every histogram of engines, with so many buckets each."""
    bounds = [*(f"{bound}.5" for bound in range(number - 1)), "+Inf"]
    return [
        f'vllm:{name}_seconds_bucket{{le="{bound}",engine="{engine}",model_name="m"}} {place}'
        for engine in range(engines_)
        for name in HISTOGRAMS
        for place, bound in enumerate(bounds)
    ]


def labelled(series: int, labels: int) -> list[str]:
    """Return lines of one counter, each with so many labels of its own."""
    texts = (",".join(f'l{label}="{number}"' for label in range(labels)) for number in range(series))
    return [f"{PREEMPTIONS}{{{text}}} 1" for text in texts]


def long_lines(number: int, filling: str, length: int = MOST_LINE) -> list[str]:
    """Return lines of a counter of so many bytes each, one label of which is filled."""
    room = length - len(f'{PREEMPTIONS}{{n="000000",a=""}} 1')
    text = filling * (room // len(filling)) + "x" * (room % len(filling))
    return [f'{PREEMPTIONS}{{n="{place:06}",a="{text}"}} 1' for place in range(number)]


def padded(line: bytes, size: int) -> bytes:
    """Return a page of one line and a comment that fills it up to a size."""
    return line + b"#" * (size - len(line) - 1) + b"\n"


async def read_page(body: bytes) -> object:
    """Read a page with its histograms, as a poll does."""
    try:
        whole = _received(_answer(body), MOST_BODY)
        return await giving_way(Reader().read(whole, with_latencies=True))
    except PollError as error:
        raise RejectedError(str(error)) from None


def _answer(body: bytes, *headers: str) -> bytes:
    lines = ("HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers, "", "")
    return "\r\n".join(lines).encode() + body


def _received(answer: bytes, most: int, piece: int = 64 * KIB) -> bytes:
    parser = AnswerParser(most)
    for start in range(0, len(answer), piece):
        parser.feed(answer[start : start + piece])
    if not parser.complete:
        parser.end()
    return parser.body()


async def read_answer(answer: bytes, piece: int = 64 * KIB) -> object:
    """Take in a whole answer, headers and all."""
    try:
        return _received(answer, MOST_BODY, piece)
    except PollError as error:
        raise RejectedError(str(error)) from None


async def read_packed(body: bytes) -> object:
    """Take in a compressed body."""
    return await read_answer(_answer(body, "Content-Encoding: deflate"))


class _Server:
    """The client of a server that answers one of its pages with given bytes."""

    spent = 0.0

    def __init__(self, detail: str, body: bytes) -> None:
        self._detail = detail
        self._body = body

    async def get(self, address: str, *, max_body: int | None = None) -> Answer:
        if "/metrics" in address:
            return Answer(page(()), "text/plain", 0.001)
        if f"/{self._detail}" not in address:
            raise StatusError(HTTPStatus.NOT_FOUND)
        return Answer(_received(_answer(self._body), max_body or MOST_BODY), "application/json", 0.001)


async def _polled(detail: str, body: bytes) -> PollRecord:
    """Poll a server once that answers a detail with these bytes; return what is known of it then."""

    def receive(_: Polled) -> Pausing[bool]:
        yield
        return False

    record, reasons = PollRecord(), []
    poller = Poller(
        "a", "http://a/metrics",
        client=_Server(detail, body),
        pace=Pace(1.0, 10.0, 0.01, 30.0, filtered=True),
        clock=SystemClock(),
        receive=receive,
        tell=lambda event: reasons.append(str(event.fields.get("reason"))),
        attempted=lambda: None,
        record=record,
    )  # fmt: skip
    await poller.poll()
    assert record.up, record.message
    if record.unused:
        raise RejectedError(reasons[0])
    return record


async def read_version(body: bytes) -> object:
    """Ask a server for its version."""
    record = await _polled("version", body)
    if not record.version:
        raise RejectedError("no version")
    return record.version


async def read_server_info(body: bytes) -> object:
    """Ask a server how it speculates."""
    record = await _polled("server_info", body)
    if record.speculation is None:
        raise RejectedError("nothing about speculation")
    return record.speculation


def detail(known: str, filling: str, last: str, size: int = MOST_ANSWER) -> bytes:
    """Return JSON of a size: what is asked for, and a key that is not, filled with repeated JSON."""
    head, tail = f'{{{known},"x":[', f"{last}]}}"
    room = size - len(head) - len(tail)
    return (head + filling * (room // len(filling)) + " " * (room % len(filling)) + tail).encode()


FILLINGS: Final = {
    "empty objects": ("{},", "{}"),
    "integers of 4,300 digits": (f"{'9' * 4300},", "1"),
    "floats of 17 digits": ("1.2345678901234567e-300,", "1"),
    "escapes": ('"\\u0041",', '""'),
}


def details(known: str) -> Mapping[str, Callable[[], bytes]]:
    """Return the costliest answers of the most bytes that still say something."""
    return {name: partial(detail, known, *filling) for name, filling in FILLINGS.items()}


def speculation(*ranges: tuple[int, int, int]) -> str:
    """Return vLLM's settings with a schedule, as the key of an object."""
    settings = {"method": "mtp", "num_speculative_tokens": 3, KEY: ranges}
    return f'"vllm_config":{{"speculative_config":{json.dumps(settings)}}}'


def ranges(number: int = MOST_RANGES) -> Iterator[tuple[int, int, int]]:
    """Yield so many ranges that touch."""
    width = MOST_BATCH // MOST_RANGES
    return ((1 + place * width, (place + 1) * width, place % 2) for place in range(number))


def told(*ranges_: tuple[int, int, int]) -> bytes:
    """Return an answer to ``/server_info`` with a schedule."""
    return f"{{{speculation(*ranges_)}}}".encode()


def info_as_text() -> bytes:
    """Return an answer in text in which the beginning of what is searched for is repeated."""
    begin, end = "speculative_config=SpeculativeConfig(method='", "mtp', model=None, num_spec_tokens=3)"
    frame = json.dumps({"vllm_config": ""})
    return json.dumps(
        {"vllm_config": begin * ((MOST_ANSWER - len(frame) - len(end)) // len(begin)) + end}
    ).encode()


def pod(words: list[str], environ: Mapping[str, str] | None = None) -> bytes:
    """Return what a container's spec says, as ``read_pod`` takes it."""
    return json.dumps({"words": words, "environ": environ or {}}).encode()


SAID: Final = ("-sc", '{"method":"mtp"}')


async def read_pod(spec: bytes) -> object:
    """Find out how a container's server speculates."""
    found = pod_speculation(**json.loads(spec))
    if found is None or found.problem:
        raise RejectedError(found.problem if found else "not read: nothing about speculation")
    return found


async def read_speculative_config(text: bytes) -> object:
    """Read what ``--speculative.config`` is given."""
    try:
        return config_speculation(text.decode())
    except ValueError as error:
        raise RejectedError(str(error)) from None


def script(filling: str, size: int = MOST_SCRIPT) -> str:
    """Return a script of a size that says at its end how a server speculates."""
    head, tail = "x ", '-sc \'{"method":"mtp"}\''
    room = size - len(head) - len(tail)
    return head + filling * (room // len(filling)) + " " * (room % len(filling)) + tail


def headers(size: int) -> bytes:
    """Return an answer with headers of so many bytes together, each as short as can be."""
    line = b"a: b\r\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"
    more = (size - len(head) - 2) // len(line)
    return head + line * more + b"\r\n1"


def chunks(size: int) -> bytes:
    """Return an answer whose chunks of one byte take so many bytes besides."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"1\r\nx\r\n" * ((size - len(head) - 5) // 5) + b"0\r\n\r\n"


def packed(size: int) -> bytes:
    """Return a compressed body of so many bytes unpacked."""
    return zlib.compress(bytes(size), 9)


def empty_blocks(size: int) -> bytes:
    """Return a compressed body of about so many bytes that unpacks to one."""
    whole = zlib.compressobj()
    begin = whole.compress(b"x") + whole.flush(zlib.Z_FULL_FLUSH)
    end = whole.flush()
    return begin + b"\x00\x00\x00\xff\xff" * ((size - len(begin) - len(end)) // 5) + end


EACH: Final = MOST_POSITIONS_TOGETHER // MOST_ENGINES

ROWS: Final = (
    Row(
        name="metrics page of a target",
        kind="socket",
        controlled_by="the model server",
        bytes=f"{MOST_BODY // 2**20} MiB unpacked (`poll.max_body`), {MOST_LINE // KIB} KiB a line that is read",
        items=f"{MOST_LINES:,} lines, {MOST_SERIES:,} samples that are read, {MOST_LABELS_OF_ONE} labels of one and "
        f"{MOST_LABELS:,} different ones, {MOST_ENGINES} engines, {MOST_POSITIONS} draft positions of one and "
        f"{MOST_POSITIONS_TOGETHER:,} of all, {MOST_NAME:,} characters of a name and {MOST_NAMES_TOGETHER:,} of "
        f"all, {MOST_BUCKETS} buckets of a histogram",
        time=CPU,
        addresses="nothing: no redirect is followed",
        beyond_bounds=FAILED,
        read=read_page,
        worst={
            "the most engines with the most positions": lambda: shuffled(engines(MOST_ENGINES - 1, EACH)),
            "engines of the most positions": lambda: shuffled(
                engines(MOST_POSITIONS_TOGETHER // MOST_POSITIONS, MOST_POSITIONS)
            ),
            "the most buckets": lambda: shuffled(
                buckets(MOST_SERIES // len(HISTOGRAMS) // MOST_BUCKETS, MOST_BUCKETS)
            ),
            "the longest names": lambda: shuffled(
                engines(MOST_NAMES_TOGETHER // 1000 - 1, EACH, f"{{:04}}{'m' * 990}")
            ),
            "the most samples": lambda: shuffled(labelled(MOST_SERIES - 1, 1)),
            "the most labels": lambda: shuffled(
                labelled(MOST_LABELS // MOST_LABELS_OF_ONE - 1, MOST_LABELS_OF_ONE)
            ),
            "the longest lines, all escapes": lambda: shuffled(long_lines(MOST_BODY // MOST_LINE - 1, "\\n")),
            "comments": lambda: page(["#"] * (MOST_LINES - 1)),
            "the most lines that are not read": lambda: page(["x{ 1"] * (MOST_LINES - 1)),
            "one comment": lambda: padded(page(()), MOST_BODY),
            "blanks": lambda: page([" " * (MOST_BODY - len(page(())) - 1)]),
        },
        beyond={
            "bytes": lambda: padded(page(()), MOST_BODY + 1),
            "bytes of a line": lambda: page(long_lines(1, "x", MOST_LINE + 1)),
            "lines": lambda: page(["#"] * MOST_LINES),
            "samples": lambda: page(labelled(MOST_SERIES, 1)),
            "labels of one": lambda: page(labelled(1, MOST_LABELS_OF_ONE + 1)),
            "labels": lambda: page(labelled(MOST_LABELS // MOST_LABELS_OF_ONE + 1, MOST_LABELS_OF_ONE)),
            "engines": lambda: page(engines(MOST_ENGINES, 0)),
            "positions of one": lambda: page(engines(1, MOST_POSITIONS + 1)),
            "positions": lambda: page(engines(MOST_ENGINES - 1, EACH + 1)),
            "characters of a name": lambda: page(engines(1, 0, "m" * (MOST_NAME + 1))),
            "characters of all names": lambda: page(
                engines(MOST_NAMES_TOGETHER // 1000 + 1, 0, f"{{:04}}{'m' * 996}")
            ),
            "buckets": lambda: page(buckets(1, MOST_BUCKETS + 1)),
        },
    ),
    Row(
        name="`/version` of a target",
        kind="socket",
        controlled_by="the model server",
        bytes=f"{MOST_ANSWER // KIB} KiB",
        items="1 text of 64 printable characters",
        time=f"one slice, at most once in {DETAILS_EVERY:.0f} s",
        addresses="nothing",
        beyond_bounds="counts as unknown; `server_details_not_used` once if it is too large",
        read=read_version,
        worst=details('"version":"1"'),
        beyond={
            "bytes": partial(detail, '"version":"1"', "1,", "1", MOST_ANSWER + 1),
            "characters": lambda: json.dumps({"version": "1" * 65}).encode(),
        },
    ),
    Row(
        name="`/server_info` of a target",
        kind="socket",
        controlled_by="the model server",
        bytes=f"{MOST_ANSWER // KIB} KiB",
        items=f"{MOST_RANGES} ranges of batch sizes from 1 to {MOST_BATCH:,}, each 0 to {MOST_POSITIONS} tokens",
        time=f"one slice, at most once in {DETAILS_EVERY:.0f} s; a schedule is looked up by bisection",
        addresses="nothing",
        beyond_bounds="counts as unknown, and a schedule as none; `server_details_not_used` once",
        read=read_server_info,
        worst={
            "the longest schedule": lambda: told(*ranges()),
            "text that almost matches again and again": info_as_text,
            **details(speculation(*ranges(8))),
        },
        beyond={
            "bytes": partial(detail, speculation(), "1,", "1", MOST_ANSWER + 1),
            "ranges": lambda: told(*ranges(MOST_RANGES), (MOST_BATCH, MOST_BATCH, 1)),
            "batch size": lambda: told((1, MOST_BATCH + 1, 1)),
            "tokens": lambda: told((1, 2, MOST_POSITIONS + 1)),
            "overlap": lambda: told((1, 2, 1), (2, 3, 1)),
        },
    ),
    Row(
        name="response headers and chunk sizes",
        kind="header",
        controlled_by="the model server, or a proxy before it",
        bytes=f"{FRAMING_LIMIT // KIB} KiB besides the body",
        items="as many as these bytes hold",
        time="pieces of 64 KiB, each as it comes; its cost counts for the share of a core",
        addresses="nothing: no redirect is followed",
        beyond_bounds=FAILED,
        read=read_answer,
        worst={
            "the shortest headers": partial(headers, FRAMING_LIMIT),
            "chunks of one byte": partial(chunks, FRAMING_LIMIT),
        },
        beyond={"bytes": partial(headers, 2 * FRAMING_LIMIT)},
    ),
    Row(
        name="packets of an answer",
        kind="socket",
        controlled_by="the model server, or a proxy before it",
        bytes="as the answer",
        items=f"{LEAST_PIECES:,} pieces, and one more for every {PIECE:,} bytes of `poll.max_body`",
        time="one piece as it comes; its cost counts for the share of a core",
        addresses="nothing",
        beyond_bounds=FAILED,
        read=partial(read_answer, piece=1),
        worst={"a byte a packet": lambda: _answer(bytes(LEAST_PIECES + MOST_BODY // PIECE - 100))},
        beyond={"pieces": lambda: _answer(bytes(LEAST_PIECES + MOST_BODY // PIECE))},
    ),
    Row(
        name="compressed body",
        kind="socket",
        controlled_by="the model server, or a proxy before it",
        bytes=f"{MOST_BODY // 2**20} MiB, packed and unpacked (`poll.max_body`)",
        items="one body",
        time="pieces of 64 KiB, each as it comes; its cost counts for the share of a core",
        addresses="nothing",
        beyond_bounds=FAILED,
        read=read_packed,
        worst={
            "the best packed": partial(packed, MOST_BODY),
            "blocks that unpack to nothing": partial(empty_blocks, MOST_BODY),
        },
        beyond={"unpacked": partial(packed, MOST_BODY + 1), "packed": partial(empty_blocks, MOST_BODY + 20)},
    ),
    Row(
        name="command line of a pod",
        kind="socket",
        controlled_by="whoever may create pods",
        bytes=f"{MOST_TEXT // KIB} KiB with the environment, {MOST_SCRIPT // KIB} KiB a word or script",
        items=f"{MOST_WORDS:,} words and variables, {MOST_RANGES} ranges of a schedule",
        time="one slice; every character is looked at a fixed number of times",
        addresses="nothing: it is never run, only read",
        beyond_bounds="is not read; a schedule counts as none, `server_details_not_used` once",
        read=read_pod,
        worst={
            "words": lambda: pod([*["-sc", "1"] * (MOST_WORDS // 2 - 1), *SAID]),
            "references": lambda: pod([*["$(A)" * 4000] * 3, *SAID], {"A": "1"}),
            "nesting": lambda: pod([*["-sc", "[" * 15_000] * 4, *SAID]),
            "a script of marks": lambda: pod(["sh", "-c", script("; ")]),
            "a script of quotes": lambda: pod(["sh", "-c", script("'' ")]),
        },
        beyond={
            "words": lambda: pod([*SAID, *[""] * MOST_WORDS]),
            "characters": lambda: pod([*SAID, "x" * MOST_TEXT]),
            "characters of a script": lambda: pod(["sh", "-c", script(" ", MOST_SCRIPT + 1)]),
            "ranges": lambda: pod(["-sc", json.dumps({KEY: [[1, 1, 1]] * (MOST_RANGES + 1)})]),
        },
    ),
    Row(
        name="environment variables of a pod",
        kind="environment",
        controlled_by="whoever may create pods",
        bytes=f"{MOST_TEXT // KIB} KiB with the command line, {MOST_SCRIPT // KIB} KiB with all that a script's variables hold",
        items=f"{MOST_WORDS:,} variables and words",
        time="one slice; every character is looked at a fixed number of times",
        addresses="nothing",
        beyond_bounds="is not read",
        read=read_pod,
        worst={
            "the most variables": lambda: pod(
                [*SAID], {f"V{number}": "x" for number in range(MOST_WORDS - 2)}
            ),
            "a script of short words": lambda: pod([], {"V": script("a ")}),
            "one that is put in again and again": lambda: pod(
                ["sh", "-c", script("$A ", 300)], {"A": "-" + " -" * 60}
            ),
        },
        beyond={
            "variables": lambda: pod([*SAID], {f"V{number}": "x" for number in range(MOST_WORDS)}),
            "characters": lambda: pod([*SAID], {"V": "x" * MOST_TEXT}),
            "characters that are put in": lambda: pod(["sh", "-c", script("$A ")], {"A": "-" + " -" * 8000}),
        },
    ),
    Row(
        name="`--speculative.config`",
        kind="environment",
        controlled_by="the pod that a sidecar is injected into",
        bytes=f"{MOST_TEXT // KIB} KiB",
        items=f"{MOST_WORDS:,} words, {MOST_RANGES} ranges of a schedule",
        time="at the start only",
        addresses="nothing",
        beyond_bounds="`variable_not_understood`, and it counts as not said; of the flag itself an error at the start",
        read=read_speculative_config,
        worst={
            "an object of many keys": lambda: json.dumps(
                {"method": "mtp", **{f"{key:x}": {} for key in range(1400)}}
            ).encode(),
            "the longest schedule": lambda: json.dumps({"method": "mtp", KEY: list(ranges())}).encode(),
        },
        beyond={
            "bytes": lambda: b"{" + b" " * MOST_TEXT + b'"method":"mtp"}',
            "ranges": lambda: json.dumps({"method": "mtp", KEY: [[1, 1, 1]] * (MOST_RANGES + 1)}).encode(),
        },
    ),
)
