"""Metrics pages, and their compressed bodies, at the bounds of the reader. Framing stands in ``faults``."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable
from typing import Final

from spec_decode_exporter.config.schema import Poll
from spec_decode_exporter.scrape.client import ResponseParser
from spec_decode_exporter.scrape.errors import PollError
from spec_decode_exporter.scrape.layout import MAX_LINE_BYTES, MAX_LINES, MAX_PAGE_LABELS, MAX_SERIES
from spec_decode_exporter.scrape.sample import (
    MAX_BUCKETS,
    MAX_ENGINES,
    MAX_NAMES_TOTAL,
    MAX_POSITIONS_TOTAL,
    SampleReader,
)
from tests.robustness.inputs.row import Row

MAX_BODY: Final = Poll().max_body
PIECE: Final = 64 * 1024
MOST_LABELS: Final = MAX_LINE_BYTES // len('l1234="12",')  # labels of a line that has nothing else


TEXT: Final = "Content-Type: text/plain; version=0.0.4; charset=utf-8"
JSON: Final = "Content-Type: application/json"


def head(*headers: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode()


def answer(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    """Return a response with a Content-Length: that of the body, or another one."""
    announced = len(body) if length is None else length
    return head(f"Content-Length: {announced}", *(headers or (TEXT,)), status=status) + body


def received(whole: bytes, max_body: int) -> bytes:
    """Parse a response in pieces; return its body or raise ``PollError`` as in a poll."""
    parser = ResponseParser(max_body)
    for start in range(0, len(whole), PIECE):
        parser.feed(whole[start : start + PIECE])
    if not parser.is_complete:
        parser.end()
    return parser.body()


HISTOGRAMS: Final = (
    "time_to_first_token", "request_time_per_output_token", "inter_token_latency", "e2e_request_latency",
    "request_queue_time",
)  # fmt: skip
DRAFTS: Final = "vllm:spec_decode_num_drafts_total"
PREEMPTIONS: Final = "vllm:num_preemptions_total"
ENGINE: Final = 'engine="0",model_name="m"'


def page(lines: Iterable[str]) -> bytes:
    """Join lines to a page that shows at least one engine."""
    return "\n".join([f"{DRAFTS}{{{ENGINE}}} 1", *lines, ""]).encode()


def shuffled(lines: list[str], seed: int = 1) -> bytes:
    """Return the page in another order for each seed: every layout is new."""
    random.Random(seed).shuffle(lines)
    return page(lines)


def engines(number: int, positions: int, model: str = "m{}") -> list[str]:
    """Return the lines of engines with a number of draft positions each."""
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
    """Return the lines of all histograms of engines, with a number of buckets each."""
    bounds = [*(f"{bound}.5" for bound in range(number - 1)), "+Inf"]
    return [
        f'vllm:{name}_seconds_bucket{{le="{bound}",engine="{engine}",model_name="m"}} {place}'
        for engine in range(engines_)
        for name in HISTOGRAMS
        for place, bound in enumerate(bounds)
    ]


def labelled(series: int, labels: int) -> list[str]:
    """Return lines of one counter, each with a number of labels of its own."""
    texts = (",".join(f'l{label}="{number}"' for label in range(labels)) for number in range(series))
    return [f"{PREEMPTIONS}{{{text}}} 1" for text in texts]


def long_lines(number: int, filling: str, length: int = MAX_LINE_BYTES) -> list[str]:
    """Return lines of a counter, each filled to a size by one label."""
    room = length - len(f'{PREEMPTIONS}{{n="000000",a=""}} 1')
    text = filling * (room // len(filling)) + "x" * (room % len(filling))
    return [f'{PREEMPTIONS}{{n="{place:06}",a="{text}"}} 1' for place in range(number)]


async def read_page(body: bytes) -> object:
    """Read a page with its histograms, as in a poll."""
    return SampleReader().read(received(answer(body), MAX_BODY), with_latencies=True)


async def read_packed(body: bytes) -> object:
    """Parse a response with a compressed body."""
    return received(answer(body, "Content-Encoding: deflate"), MAX_BODY)


def empty_blocks(size: int) -> bytes:
    """Return a compressed body of about ``size`` bytes that decompresses to one byte."""
    whole = zlib.compressobj()
    begin = whole.compress(b"x") + whole.flush(zlib.Z_FULL_FLUSH)
    end = whole.flush()
    return begin + b"\x00\x00\x00\xff\xff" * ((size - len(begin) - len(end)) // 5) + end


EACH: Final = MAX_POSITIONS_TOTAL // MAX_ENGINES

ROWS: Final = (
    Row(
        name="metrics page of a target",
        read=read_page,
        rejects=PollError,
        worst={
            "the most engines with the most positions": lambda: shuffled(engines(MAX_ENGINES - 1, EACH)),
            "the most buckets": lambda: shuffled(
                buckets((MAX_SERIES - 1) // len(HISTOGRAMS) // MAX_BUCKETS, MAX_BUCKETS)
            ),
            "the longest names": lambda: shuffled(
                engines(MAX_NAMES_TOTAL // 1000 - 1, EACH, f"{{:04}}{'m' * 990}")
            ),
            "the most samples": lambda: shuffled(labelled(MAX_SERIES - 1, 1)),
            "the most labels": lambda: shuffled(labelled(MAX_PAGE_LABELS // MOST_LABELS - 1, MOST_LABELS)),
            "the longest lines, all escapes": lambda: shuffled(
                long_lines(MAX_BODY // MAX_LINE_BYTES - 1, "\\n")
            ),
            "the most lines that are not read": lambda: page(["x{ 1"] * (MAX_LINES - 1)),
            "one comment": lambda: page(()).ljust(MAX_BODY - 1, b"#") + b"\n",
        },
        beyond={
            "bytes": lambda: page(()).ljust(MAX_BODY, b"#") + b"\n",
            "bytes of a line": lambda: page(long_lines(1, "x", MAX_LINE_BYTES + 1)),
            "lines": lambda: page(["#"] * MAX_LINES),
            "samples": lambda: page(labelled(MAX_SERIES, 1)),
            "labels": lambda: page(labelled(MAX_PAGE_LABELS // MOST_LABELS + 1, MOST_LABELS)),
            "positions": lambda: page(engines(MAX_ENGINES - 1, EACH + 1)),
            "buckets": lambda: page(buckets(1, MAX_BUCKETS + 1)),
        },
    ),
    Row(
        "compressed body",
        read_packed,
        rejects=PollError,
        worst={
            "the best packed": lambda: zlib.compress(bytes(MAX_BODY), 9),
            "blocks that unpack to nothing": lambda: empty_blocks(MAX_BODY),
        },
        beyond={
            "unpacked": lambda: zlib.compress(bytes(MAX_BODY + 1), 9),
            "packed": lambda: empty_blocks(MAX_BODY + 20),
        },
    ),
)
