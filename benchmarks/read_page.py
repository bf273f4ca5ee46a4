"""Reading a page: prometheus_client's parser, our first reading, and our readings of the pages that follow.

    python -m benchmarks.read_page [--rounds 15] [--page FILE] [--smoke]

The page is one that vLLM 0.32.0 sent: 55 kB, 639 lines, one engine with K = 4. The ways to read it take
turns, so that a noisy machine is noisy for all of them; figures are CPU seconds of one reading, and the ratio
is that of the medians. From one reading to the next every value changes, as it does between two polls. With
histograms a page is read every `poll.histogram_interval`, without them at every other poll.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.options import parsed, parser
from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.scrape.page.engine_table import MEANINGS
from spec_decode_exporter.scrape.page.parser import read_page
from spec_decode_exporter.scrape.page.sample_reader import SampleReader

PAGE = Path(__file__).parents[1] / "tests/pages/vllm-0.32.0-python-ngram-k4.prom"
PAGES = 10
BATCH_SECONDS = 0.05

Read = Callable[[bytes], object]


def parse(page: bytes) -> object:
    return list(text_string_to_metric_families(page.decode()))


def repeated(pages: Sequence[bytes], *, with_latencies: bool) -> Read:
    """Return the reading of a target's later pages, up to the samples of its engines."""
    reader = SampleReader()
    finish(reader.read(pages[0], with_latencies=with_latencies))
    return lambda page: finish(reader.read(page, with_latencies=with_latencies))


def later_pages(page: bytes) -> list[bytes]:
    """Return the page as it might look in the seconds after: the last digit before the point has moved on."""
    return [page.replace(b".0\n", b"%d.0\n" % digit) for digit in range(PAGES)]


def seconds_of(read: Read, pages: Sequence[bytes]) -> float:
    """Return the CPU seconds of one reading, by as many as fill a short while."""
    readings, begun, spent = 0, time.process_time(), 0.0
    for page in cycle(pages):
        read(page)
        readings += 1
        spent = time.process_time() - begun
        if spent > BATCH_SECONDS:
            break
    return spent / readings


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--page", type=Path, default=PAGE)
    options = parsed(arguments, rounds=1)
    pages = later_pages(options.page.read_bytes())
    names = frozenset(MEANINGS)
    ways: dict[str, Read] = {
        "prometheus_client's parser": parse,
        "first reading": lambda page: finish(read_page(page, names)),
        "later reading, with histograms": repeated(pages, with_latencies=True),
        "later reading, without": repeated(pages, with_latencies=False),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(options.rounds):
        for way, read in ways.items():
            seconds[way].append(seconds_of(read, pages))
    size = statistics.mean(map(len, pages))
    slowest = statistics.median(seconds["prometheus_client's parser"])
    print(f"{options.page.name}, {size / 1e3:.0f} kB, {options.rounds} rounds\n")
    print("| | best | median | MB/s | times faster |\n|---|---:|---:|---:|---:|")
    for way, spent in seconds.items():
        median = statistics.median(spent)
        print(
            f"| {way} | {min(spent) * 1e3:.2f} ms | {median * 1e3:.2f} ms"
            f" | {size / median / 1e6:.0f} | {slowest / median:.0f} |"
        )


if __name__ == "__main__":
    main()
