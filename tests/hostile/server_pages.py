"""Metrics pages at the bounds of what is read."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final

from spec_decode_exporter.core.cooperative_yield import cooperatively
from spec_decode_exporter.scrape.page.layout_map import (
    MOST_BUCKETS,
    MOST_ENGINES,
    MOST_NAME,
    MOST_NAMES_TOGETHER,
    MOST_POSITIONS,
    MOST_POSITIONS_TOGETHER,
)
from spec_decode_exporter.scrape.page.parser import (
    MOST_LABELS,
    MOST_LABELS_OF_ONE,
    MOST_LINE,
    MOST_LINES,
    MOST_SERIES,
    SLICE,
)
from spec_decode_exporter.scrape.page.sample_reader import SampleReader
from spec_decode_exporter.scrape.poll.poll_schedule import LARGEST_SHARE, PROCESSOR_SHARE
from spec_decode_exporter.scrape.poll_errors import PollError
from tests.hostile.row import RejectedError, Row
from tests.hostile.server_answers import FAILED, KIB, MOST_BODY, answer, received

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
        whole = received(answer(body), MOST_BODY)
        return await cooperatively(SampleReader().read(whole, with_latencies=True))
    except PollError as error:
        raise RejectedError(str(error)) from None


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
                buckets((MOST_SERIES - 1) // len(HISTOGRAMS) // MOST_BUCKETS, MOST_BUCKETS)
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
)
