"""History of one engine since its first poll: totals, K, and windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, zip_longest
from typing import Final, NamedTuple, TypeVar

from spec_decode_exporter.scrape.engines import Counter, Gauge, Latency
from spec_decode_exporter.scrape.sample import Buckets, Sample
from spec_decode_exporter.window.histograms import Answers, Histograms
from spec_decode_exporter.window.poll import UNKNOWN, Counters, Increment, Poll, Reset, Step, step
from spec_decode_exporter.window.ring import Increments, Ring, added

NANO: Final = 10**9
MIN_INCREMENTS: Final = 3  # minimum increments of a window; one with fewer is partial
GONE_POLLS, GONE_SECONDS = 3, 10.0
"""Windows disappear without a successful poll for this many intervals and seconds."""
_MAX_CREATIONS: Final = 32
_TENTHS: Final = 10

Number = TypeVar("Number", int, float)


class Means(NamedTuple):
    """Means of gauges over the polls of a window; None: the engine lacks it."""

    running_requests: float | None = None
    waiting_requests: float | None = None
    kv_cache_usage_ratio: float | None = None


# Row of the ring: covered nanoseconds, polls, load and gauges in billionths, two products for means of loads,
# counters, accepted by position. A window's sum of products takes as long as that of a counter.
_NAMES: Final = (
    *("covered_nanoseconds", "polls", "load_billionths", "load_by_draft_tokens", "decoding_by_steps"),
    *Means._fields,
    *Counters._fields,
)
_COLUMNS: Final = {name: place for place, name in enumerate(_NAMES)}
_COVERED, _GAUGES, _COUNTERS, _POSITIONS = 0, 5, 8, len(_NAMES)


@dataclass(frozen=True, slots=True)
class Window:
    """Sums of increments over the last ``length`` seconds."""

    length: float
    seconds: float  # covered seconds: less than `length` after a start
    polls: int
    total: Counters[int | None]
    positions: tuple[int, ...]
    """Accepted tokens at each of the K draft positions; 0 if the engine exports no positions."""
    mean: Means
    increments: Increments = field(repr=False)
    answers: Answers
    """Answers that ended in the longest window: a shorter one has too few for their variation."""
    drafted: tuple[int, ...] = ()
    """Draft tokens at each of the K positions; empty if the engine does not count them."""
    counts_at_end: bool = False  # True if the engine counts a request's drafts and tokens when it ends

    @property
    def is_partial(self) -> bool:
        """True if it is too short to evaluate: under half its length, or under 3 increments."""
        return self.seconds < self.length / 2 or self.polls < MIN_INCREMENTS

    @staticmethod
    def side_by_side(windows: Sequence[Window], increments: Increments) -> Window:
        """Return the sum of windows of equal length and end, of several engines, with these ``increments``.

        A value that one engine lacks is absent. Requests add up; the use of caches is averaged.
        """
        are_counted = {bool(window.drafted) for window in windows if window.total.drafts} == {True}
        drafted = [window.drafted or (0,) * len(window.positions) for window in windows if are_counted]
        mean = Means(*map(_sum_if_known, zip(*(window.mean for window in windows), strict=True)))
        usage = mean.kv_cache_usage_ratio
        return replace(
            max(windows, key=lambda window: window.seconds),
            total=Counters(*map(_sum_if_known, zip(*(window.total for window in windows), strict=True))),
            positions=tuple(map(sum, zip_longest(*(window.positions for window in windows), fillvalue=0))),
            mean=mean._replace(kv_cache_usage_ratio=None if usage is None else usage / len(windows)),
            increments=increments,
            answers=Answers(*map(sum, zip(*(window.answers for window in windows), strict=True))),
            drafted=tuple(map(sum, zip_longest(*drafted, fillvalue=0))),
            counts_at_end=any(window.counts_at_end for window in windows),
        )


def _sum_if_known(values: tuple[Number | None, ...]) -> Number | None:
    """Return the sum of values; None if one of them is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def row_of(increment: Increment, gauges: Sequence[float | None]) -> list[int]:
    """Return the row of an increment, with the gauges of ``Means`` at its end."""
    covered, its = round((increment.end - increment.begin) * NANO), increment.counters
    load = _fixed(increment.load)
    # Requests that decode, by Little's law, weighted by the decode steps; in billionths too.
    decoding = its.decode_steps * its.decode_nanoseconds * NANO // covered if covered else 0
    products = load * its.draft_tokens, decoding
    return [covered, 1, load, *products, *map(_fixed, gauges), *its, *increment.positions]


def columns(increments: Increments, *names: str) -> list[list[int]]:
    """Return columns: polls, counters, or covered nanoseconds, loads, products and gauges in billionths.

    A gauge is that at the end of each increment; of merged polls, and of engines side by side, a sum.
    """
    return [increments.column(_COLUMNS[name]) for name in names]


def scaled(increments: Increments, name: str) -> list[float]:
    """Return a column that is in billionths, in its unit."""
    return [value / NANO for value in increments.column(_COLUMNS[name])]


def sum_of(increments: Increments, name: str) -> int:
    """Return the sum of a column."""
    return increments.sum(_COLUMNS[name])


def position_columns(increments: Increments, number: int) -> list[list[int]]:
    """Return the accepted tokens of the first ``number`` positions."""
    return [increments.column(_POSITIONS + position) for position in range(number)]


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums of all increments since the engine's first poll, over restarts of the server."""

    counters: Counters[int]
    positions: tuple[int, ...]
    covered_seconds: float
    poll_buckets: tuple[int, ...]
    """Draft tokens by the acceptance rate of their poll, cumulative by tenths; the last is +Inf."""
    resets: dict[Reset, int]


class History:
    """Totals since the engine's first poll, and windows over the most recent increments."""

    def __init__(self, longest: float) -> None:
        """Keep enough for windows up to ``longest`` seconds."""
        self._ring = Ring(longest)
        self._drafted = Ring(longest)
        self._histograms = Histograms(longest)
        self.poll: Poll | None = None
        self.sample: Sample | None = None
        self.last_seen = self.wall = 0.0  # time of the last page with the engine, monotonic and Unix time
        self.configured_tokens = 0
        self.window_resets = 0  # resets of the windows, each caused by another way of drafting
        self.varies_tokens = False  # the server's process changed K, which it shows as a gauge
        self._seen_tokens = self._most_tokens = 0
        self._has_positions = False
        self._tokens_before: int | None = None
        self._process_since = self._interval = 0.0
        self._creations: list[float] = []
        self._alternated: float | None = None
        self._totals: list[int] = [0] * _POSITIONS
        self._poll_buckets = [0] * (_TENTHS + 1)
        self._resets = dict.fromkeys(Reset, 0)

    @property
    def tokens(self) -> int:
        """K: the larger of the configured and the observed number of draft positions."""
        return max(self._seen_tokens, self.configured_tokens)

    @property
    def has_drafted(self) -> bool:
        """True if the server's process has drafted."""
        return self.poll is not None and any(self.poll.counters[:3])

    @property
    def knows_steps(self) -> bool:
        """True if the server counts each of its decode steps at once."""
        if self.sample is None or self.sample.kind.counts_at_end:
            return False
        return self.sample[Counter.DECODE_STEPS] is not None

    @property
    def alternates(self) -> bool:
        """True if old creation times reappeared within the longest window: several servers, one address."""
        return self._alternated is not None and self.last_seen - self._alternated < self._ring.keep

    def observe(self, sample: Sample, moment: float, wall: float, interval: float) -> Step:
        """Add the sample of a poll at ``moment`` (monotonic); ``interval`` is that of polls, in seconds."""
        self._interval, self.sample = interval, sample
        self.last_seen, self.wall = moment, wall
        taken = step(self.poll, sample, moment, wall, fell=self._histograms.fell(sample.latencies or {}))
        if self.poll is None:
            self._process_since = moment
        if taken.reset:
            self._restart(taken, taken.reset)
        elif self.poll is not None and self.poll.steps:
            now = round(sample.gauge(Gauge.DRAFT_STEPS) or 0)
            self.varies_tokens |= now not in (0, self.poll.steps)
        self.poll = taken.poll
        if sample.created is not None and sample.created not in self._creations:
            self._creations = [*self._creations, sample.created][-_MAX_CREATIONS:]
        self._learn_tokens(taken.poll, speculates=sample[Counter.DRAFTS] is not None)
        if taken.increment:
            self._add(taken.increment, sample)
        return taken

    def observe_histograms(self, sample: Sample, moment: float, interval: float) -> None:
        """Add the histograms of a page that has them; ``interval`` is that of such polls."""
        if sample.latencies is not None:
            self._histograms.add(sample.latencies, sample.answer_lengths, moment, interval)

    def configure_tokens(self, tokens: int) -> None:
        """Set the configured K, 0 if unknown; another than before, or before a restart, resets windows."""
        before = self.tokens if self.configured_tokens else self._tokens_before
        self.configured_tokens = tokens
        if tokens and before and self.tokens != before:
            self._tokens_before = None
            self.reset_windows()

    def begin_again(self) -> None:
        """Compare the next page with none before, and reset the windows: it counts otherwise."""
        self.poll = None
        self.reset_windows()

    def reset_windows(self) -> None:
        """Reset the windows: later increments do not match the earlier ones."""
        self.window_resets += 1
        self._ring.clear()
        self._drafted.clear()
        self._histograms.clear()

    def keep(self, longest: float) -> None:
        """Change the longest window."""
        self._ring.keep = self._drafted.keep = self._histograms.keep = longest

    def is_gone(self, now: float) -> bool:
        """Return whether the last page with the engine is too old for its windows."""
        return now - self.last_seen > max(GONE_POLLS * self._interval, GONE_SECONDS)

    def window(self, length: float) -> Window:
        """Return the sums over the last ``length`` seconds before the newest poll."""
        return self.windows(length)[0]

    def windows(self, *lengths: float) -> tuple[Window, ...]:
        """Return the sums over the last seconds before the newest poll, for each length."""
        for ring in (self._ring, self._drafted):
            ring.remove(self.last_seen - ring.keep - self._interval)
        answers = self._histograms.answers(self.last_seen)
        return tuple(self._window(length, answers) for length in lengths)

    def latencies(self) -> dict[Latency, Buckets]:
        """Return the histograms over the longest window."""
        return self._histograms.latencies(self.last_seen)

    def totals(self) -> Totals:
        """Return all sums so far, with every position that any process had; none if no page shows any."""
        positions = added(self._totals[_POSITIONS:], [0] * self._most_tokens) if self._has_positions else []
        return Totals(
            Counters(*self._totals[_COUNTERS:_POSITIONS]),
            tuple(positions),
            self._totals[_COVERED] / NANO,
            tuple(accumulate(self._poll_buckets)),
            dict(self._resets),
        )

    def _window(self, length: float, answers: Answers) -> Window:
        """Return the increments that begin at most ``length`` and half an interval ago.

        With a whole interval, jitter would decide whether one more increment is in the window.
        """
        edge = self.last_seen - length - self._interval / 2
        increments, drafted = self._ring.since(edge), self._drafted.since(edge)
        number, sums = len(increments), increments.sums(_POSITIONS + self.tokens)
        known = self.sample.counters if self.sample else UNKNOWN
        gauges = self.sample.gauges[: len(Means())] if self.sample and number else Means()
        counts = sums[_COUNTERS:_POSITIONS]
        means = [total / NANO / (number or 1) for total in sums[_GAUGES:_COUNTERS]]
        return Window(
            length=length,
            seconds=sums[_COVERED] / NANO,
            polls=number,
            total=Counters(*map(_if_known, counts, known)),
            positions=tuple(sums[_POSITIONS : _POSITIONS + self.tokens]),
            mean=Means(*map(_if_known, means, gauges)),
            increments=increments,
            answers=answers,
            drafted=tuple(drafted.sums(self.tokens)[: self.tokens]) if len(drafted) else (),
            counts_at_end=self.sample is not None and self.sample.kind.counts_at_end,
        )

    def _restart(self, taken: Step, reset: Reset) -> None:
        self._resets[reset] += 1
        self.varies_tokens = False
        if reset is Reset.RESTART and taken.poll.created in self._creations:
            self._alternated = taken.poll.moment
        self._process_since = taken.increment.begin if taken.increment else taken.poll.moment
        self._histograms.restart(taken.increment.begin if taken.increment else None)
        self._tokens_before, self._seen_tokens = self._seen_tokens or self._tokens_before or 0, 0

    def _learn_tokens(self, poll: Poll, *, speculates: bool) -> None:
        """Learn K. It changes only with a restart; then no window may mix both processes.

        K = 0 means no speculation. A server that creates its positions one by one may at first appear to have
        the old K. So additional positions change K while a window can have increments of both processes.
        """
        before, tokens = self._tokens_before, poll.tokens
        self._seen_tokens, self._most_tokens = tokens, max(self._most_tokens, tokens)
        self._has_positions |= bool(poll.positions)
        if before is None or not (tokens or not speculates):
            return
        if tokens != before:
            self.reset_windows()
        if tokens != before or poll.moment - self._process_since > self._ring.keep:
            self._tokens_before = None

    def _add(self, increment: Increment, sample: Sample) -> None:
        row = row_of(increment, sample.gauges[: len(Means())])
        self._ring.add(increment.begin, increment.end, row, self._interval)
        if increment.drafted:
            self._drafted.add(increment.begin, increment.end, increment.drafted, self._interval)
        self._totals = added(self._totals, row)
        _, drafted, accepted, *_ = increment.counters
        if drafted > 0:
            tenths = -(-accepted * _TENTHS // drafted)  # in integers: exactly 0.3 is not above 0.3
            self._poll_buckets[min(max(tenths, 1), _TENTHS + 1) - 1] += drafted


def _if_known(value: Number, published: float | None) -> Number | None:
    return None if published is None else value


def _fixed(gauge: float | None) -> int:
    """Return a gauge, which ``MAX_GAUGES`` bounds, in billionths, so that its sum is exact."""
    return round(gauge * NANO) if gauge else 0
