"""History of one engine: windows, totals, resets, K and processes."""

from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.scrape.engines import Gauge, Latency
from spec_decode_exporter.scrape.sample import MAX_GAUGES, Buckets
from spec_decode_exporter.window.engine_windows import History, Means
from spec_decode_exporter.window.poll import Counters, Reset
from tests.conftest import make_sample
from tests.fakes.windows import window

COUNTERS = Counters._fields
WALL = 1_790_000_000.0


@dataclass
class Fed:
    """History with the time of its newest poll."""

    history: History = field(default_factory=lambda: History(300.0))
    interval: float = 1.0
    moment: float = 0.0

    def poll(self, *samples, after=None):
        for sample in samples:
            self.moment += self.interval if after is None else after
            self.history.observe(sample, self.moment, WALL + self.moment, self.interval)
            self.history.observe_histograms(sample, self.moment, self.interval)
        return self

    @property
    def window(self):
        """The window of 30 s."""
        return self.history.window(30.0)


def busy(drafts, tokens=4, positions=None, **more):
    """Return the sample of a server after drafts of which the first two tokens are accepted."""
    positions = (drafts, drafts, 0, 0, 0, 0)[:tokens] if positions is None else positions
    return make_sample(drafts, tokens * drafts, sum(positions), positions=positions, **more)


# Windows


def test_the_margin_is_half_of_the_interval_in_force():
    engine = Fed(interval=2.0).poll(*map(busy, range(40)))
    engine.poll(busy(40), after=0.75)
    assert engine.window.polls == 16
    engine.interval = 1.0
    engine.poll(busy(41), after=0.0)
    assert engine.window.polls == 16


def test_reading_the_windows_frees_what_none_of_them_needs():
    assert len(Fed(History(30.0)).poll(*map(busy, range(60))).window.increments.totals[0]) <= 33


@pytest.mark.parametrize(
    ("seconds", "number", "partial"),
    [(15.0, 3, False), (14.999, 100, True), (30.0, 2, True), (30.0, 3, False), (30.0, 30, False)],
)
def test_under_half_its_length_or_three_increments_a_window_is_partial(seconds, number, partial):
    assert replace(window(length=30.0, seconds=seconds), polls=number).is_partial is partial


def test_a_value_that_the_engine_lacks_is_none_and_not_0():
    engine = Fed().poll(busy(1, decode_steps=10), busy(2, decode_steps=20, waiting_requests=1.0), busy(3))
    assert (engine.window.total.decode_steps, engine.window.total.drafts) == (None, 2)
    assert (engine.history.knows_steps, engine.window.mean) == (False, Means())
    engine.poll(busy(4, decode_steps=50, running_requests=3.0))
    assert engine.window.total.decode_steps == 40
    assert (engine.history.knows_steps, engine.window.mean) == (True, Means(1.0))


# Totals

RATE = st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)).filter(lambda rate: rate[1] <= rate[0] + 16)


@given(st.lists(RATE))
def test_polls_are_counted_by_their_acceptance_rate_and_weighted_by_draft_tokens(rates):
    """A rate on a bound belongs to it; a torn page above 1 is above the last bound."""
    sums = accumulate(rates, lambda one, other: (one[0] + other[0], one[1] + other[1]), initial=(0, 0))
    pages = [make_sample(drafted, drafted, accepted) for drafted, accepted in sums]
    found = Fed().poll(*pages).history.totals()
    assert found.poll_buckets == tuple(
        sum(drafted for drafted, accepted in rates if 10 * accepted <= tenth * drafted)
        for tenth in (*range(1, 11), inf)
    )
    assert found.counters.draft_tokens == found.poll_buckets[-1]
    assert found.counters.accepted_tokens == sum(accepted for _, accepted in rates)


@pytest.mark.parametrize(("positions", "expected"), [((), ()), (None, (10, 10, 0))])
def test_positions_that_no_page_shows_are_absent_and_not_0(positions, expected):
    engine = Fed().poll(busy(10, 3, positions=positions), busy(20, 3, positions=positions))
    assert (engine.history.tokens, engine.history.totals().positions) == (3, expected)


PAGE = st.tuples(
    st.lists(st.none() | st.integers(0, 2**83), min_size=len(COUNTERS), max_size=len(COUNTERS)),
    st.lists(st.integers(0, 2**53), max_size=4),
    st.none() | st.floats(0, 2e9),
    st.floats(0, MAX_GAUGES[Gauge.RUNNING_REQUESTS]),
)


@given(st.lists(PAGE, max_size=10))
def test_totals_never_decrease_whatever_the_pages(pages):
    engine, earlier = Fed(History(30.0)), []
    for counters, positions, created, running in pages:
        named = dict(zip(COUNTERS, counters, strict=True))
        engine.poll(make_sample(positions=positions, created=created, running_requests=running, **named))
        assert engine.window.polls < engine.moment
        found = engine.history.totals()
        totals = [found.covered_seconds, *found.counters, *found.poll_buckets, *found.positions]
        assert all(old <= new for old, new in zip(earlier, totals, strict=False))
        assert len(earlier) <= len(totals)
        earlier = totals


# Resets


@pytest.mark.parametrize(
    ("created", "alternates"),
    [
        ((-1, -2), False),
        ((-1, -2, -1), True),
        ((None, -1, -2, -1), True),
        (([*range(20)] * 2)[::-1], True),  # twenty servers
        ((0, 0, 3, 3, 6, 6), False),  # restarts
        ((-1, -2, *[-1] * 30), True),  # once, until it left the longest window
        ((-1, -2, *[-1] * 31), False),
    ],
)
def test_creation_times_that_come_back_are_several_servers(created, alternates):
    samples = [busy(1, created=moment if moment is None else WALL + moment) for moment in created]
    assert Fed(History(30.0)).poll(*samples).history.alternates is alternates


@pytest.mark.parametrize(("interval", "seconds"), [(1.0, 10.0), (5.0, 15.0)])
def test_after_three_intervals_and_10_s_without_a_poll_the_engine_is_gone(interval, seconds):
    engine = Fed(interval=interval).poll(busy(1))
    assert not engine.history.is_gone(engine.moment + seconds)
    assert engine.history.is_gone(engine.moment + seconds + 0.1)


# K


@pytest.mark.parametrize(
    ("samples", "drafts", "positions"),
    [
        # Another K after a restart, or the same.
        ((busy(4, 3, created=WALL - 9), busy(2, 5, created=WALL + 1.5)), 2, (2, 2, 0, 0, 0)),
        ((busy(1, created=WALL - 9), busy(5, created=WALL - 9), busy(2, created=WALL + 2.5)), 6, (6, 6, 0, 0)),
        ((busy(10, 5), busy(20, 5), busy(1, 3)), 0, (0, 0, 0)),
        # Positions that come one by one; none after a restart, or other ones later.
        ((busy(0, 3, ()), busy(10, 3, (4,)), busy(30, 3, (14, 5, 1))), 30, (14, 5, 1)),
        ((busy(10, 3), busy(20, 3), busy(0, 3, ()), busy(0, 3, ())), 10, ()),
        ((busy(10, 3), busy(20, 3), busy(0, 3, ()), busy(4, 5, (4, 2))), 4, (4, 2)),
        # Soon after a restart positions grow beyond the old K.
        ((busy(10, 3), busy(20, 3), busy(1, 3), busy(3, 3, (2, 2, 1, 1, 1))), 2, (1, 1, 1, 1, 1)),
        # Speculation is switched off, and on.
        ((busy(1, created=WALL), busy(5, created=WALL), make_sample(created=WALL + 2.5)), None, ()),
        ((make_sample(created=WALL), make_sample(created=WALL), busy(3, 2, created=WALL + 2.5)), 3, (3, 3)),
    ],
)  # fmt: skip
def test_windows_begin_again_with_another_k_and_only_then(samples, drafts, positions):
    engine = Fed().poll(*samples)
    assert (engine.window.total.drafts, engine.window.positions) == (drafts, positions)
    assert engine.history.tokens == len(positions)


def test_a_restart_without_speculation_before_and_after_keeps_the_windows():
    steps = [make_sample(created=WALL, decode_steps=second) for second in range(1, 6)]
    engine = Fed().poll(*steps, make_sample(created=WALL + 5.5, decode_steps=7))
    assert (engine.window.total.decode_steps, engine.history.window_resets) == (4 + 7, 0)


def test_long_after_a_restart_more_positions_are_no_other_k():
    samples = busy(100, 3), *(busy(n, 3) for n in range(1, 60)), busy(60, 3, (60, 60, 1, 1, 1))
    assert Fed(History(30.0)).poll(*samples).window.total.drafts == 30


@pytest.mark.parametrize(("configured", "tokens", "resets"), [(7, 7, 1), (2, 4, 1), (6, 6, 0), (0, 4, 0)])
def test_another_configured_k_resets_the_windows(configured, tokens, resets):
    engine = Fed()
    engine.history.configure_tokens(6)
    engine.poll(*map(busy, range(1, 6)))
    assert (engine.history.tokens, engine.window.positions) == (6, (4, 4, 0, 0, 0, 0))
    engine.history.configure_tokens(configured)
    assert (engine.history.tokens, engine.history.window_resets) == (tokens, resets)
    assert engine.window.polls == (0 if resets else 4)


@pytest.mark.parametrize(
    ("before", "after", "resets"),
    [((4, 0), (4, 4), 0), ((4, 0), (4, 6), 1), ((4, 4), (6, 6), 1), ((4, 4), (4, 6), 1), ((4, 4), (4, 4), 0)],
)
def test_a_k_that_becomes_known_resets_windows_only_if_another_process_had_another(before, after, resets):
    """Before and after a restart: positions, and the K that the server reports a poll later."""
    engine = Fed()
    for process, (positions, tokens) in enumerate((before, after)):
        engine.poll(busy(1, positions, created=WALL + process + 0.5))
        engine.history.configure_tokens(tokens)
        engine.poll(busy(2, positions, created=WALL + process + 0.5))
        engine.history.configure_tokens(0)
    engine.history.configure_tokens(after[1])
    assert (engine.history.tokens, engine.history.window_resets) == (after[1], resets)


@pytest.mark.parametrize(
    ("bounds", "counts", "resets"),
    [((1.0, inf), (4, 9), 1), ((1.0, inf), (5, 9), 0), ((2.0, inf), (4, 9), 0), (None, None, 0)],
)
def test_a_histogram_that_falls_is_another_process_though_all_counters_rise(bounds, counts, resets):
    """Without creation times, a process that has overtaken the one before."""
    engine = Fed().poll(busy(5, latencies={Latency.QUEUE: Buckets((1.0, inf), (5, 8))}), busy(6))
    latencies = None if bounds is None else {Latency.QUEUE: Buckets(bounds, counts)}
    engine.poll(busy(900, latencies=latencies))
    assert engine.history.totals().resets[Reset.DECREASE] == resets
    assert engine.window.polls == 2 - resets
    assert (engine.history.totals().counters.drafts < 100) is bool(resets)


# Random lives of a server. Times are multiples of an eighth of a second, so that sums are exact in binary.


@dataclass
class Model:
    """A server, and all increments between its polls: slow and simple."""

    moment: float = 0.125
    begin: float = 0.125  # of its process
    tokens: int = 3
    counts: list[int] = field(default_factory=lambda: [0] * 6)
    polled: tuple | None = None
    increments: list[tuple] = field(default_factory=list)
    drafts: int = 0
    seconds: float = 0.0

    def work(self, lengths):
        """Draft; ``lengths`` are the accepted tokens of each draft."""
        reached = [sum(length > place for length in lengths) for place in range(self.tokens)]
        gained = [len(lengths), len(lengths) * self.tokens, sum(reached), *reached]
        self.counts = [before + more for before, more in zip(self.counts, gained, strict=True)]

    def restart(self, tokens):
        self.moment += 0.125
        self.begin, self.tokens, self.counts = self.moment, tokens, [0] * (3 + tokens)

    def poll(self):
        before, self.polled = self.polled, (self.moment, self.begin, self.counts)
        if before is None:
            return
        begin, gained = self.begin, self.counts
        if begin == before[1]:
            begin, gained = before[0], [new - old for new, old in zip(gained, before[2], strict=True)]
        else:
            if len(gained) != len(before[2]):
                self.increments.clear()
            totals = list(zip(before[2][:3], gained[:3], strict=True))
            if 0 < before[2][0] < gained[0] and not any(new < old for old, new in totals):
                return  # a series of another process may have been added to the one before
        self.increments.append((begin, self.moment, gained))
        self.drafts += gained[0]
        self.seconds += self.moment - begin


EIGHTHS = st.one_of(st.integers(4, 12), st.just(8), st.integers(1, 1200))
LIFE = st.one_of(
    st.tuples(st.just("work"), st.lists(st.integers(0, 6), max_size=6)),
    st.tuples(st.just("poll"), EIGHTHS),
    st.tuples(st.just("restart"), st.integers(1, 4)),
)


@given(st.lists(st.one_of(LIFE, LIFE, LIFE.filter(lambda event: event[0] != "restart")), max_size=80))
def test_windows_and_totals_are_those_of_adding_up_one_by_one(life):
    history, model = History(120.0), Model()
    for event, value in life:
        if event != "poll":
            getattr(model, event)(value)
            continue
        model.moment += value / 8
        model.poll()
        sample = make_sample(*model.counts[:3], positions=model.counts[3:], created=WALL + model.begin)
        history.observe(sample, model.moment, WALL + model.moment, 1.0)
        for length, found in zip((5.0, 30.0, 120.0), history.windows(5.0, 30.0, 120.0), strict=True):
            inside = [each for each in model.increments if each[0] >= model.moment - length - 0.5]
            sums = [sum(gained[place] for _, _, gained in inside) for place in range(3 + model.tokens)]
            assert (found.seconds, found.polls) == (sum(end - begin for begin, end, _ in inside), len(inside))
            assert [*found.total[:3], *found.positions] == sums
        assert history.totals().counters.drafts == model.drafts
        assert history.totals().covered_seconds == model.seconds


def test_longer_windows_fill_up_after_a_change_and_shorter_ones_hold_at_once():
    engine = Fed(History(30.0)).poll(*map(busy, range(100)))
    engine.history.keep(60.0)
    for second in range(100, 160):
        engine.poll(busy(second, latencies={}, answer_lengths=Buckets((1.0, inf), (second, second))))
    assert (engine.history.window(60.0).polls, engine.history.window(10.0).polls) == (60, 10)
    assert engine.history.window(10.0).answers.requests == 59
    assert (engine.history.wall, engine.history.latencies()) == (WALL + engine.moment, {})
