"""Windows and totals compared with a slow, simple model, over random histories of a server.

Times are multiples of an eighth of a second: sums are exact in binary, so every difference is a bug.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.engine_history import EngineHistory

WALL = 1_790_000_000.0
WINDOWS = (5.0, 30.0, 120.0)
INTERVAL = 1.0


@dataclass
class Server:
    """Simulated server: it counts drafts, and its counters restart with it."""

    tokens: int
    created: float
    drafts: int = 0
    drafted: int = 0
    positions: list[int] = field(default_factory=list)

    def __post_init__(self):
        self.positions = [0] * self.tokens

    def work(self, accepted):
        for length in accepted:
            self.drafts += 1
            self.drafted += self.tokens
            for position in range(min(length, self.tokens)):
                self.positions[position] += 1

    def sample(self, make_sample, *, with_creation):
        return make_sample(
            self.drafts,
            self.drafted,
            sum(self.positions),
            positions=self.positions,
            generation_tokens=self.drafts + sum(self.positions),
            created=self.created if with_creation else None,
        )


@dataclass
class Model:
    """Keep all increments; add up those of each window."""

    increments: list[tuple] = field(default_factory=list)  # begin, end, D, T, A, positions
    total: list[int] = field(default_factory=lambda: [0, 0, 0])
    resets: int = 0
    polled: tuple | None = None  # moment, D, T, A, positions, created
    tokens: int = 0

    def poll(self, moment, server, *, with_creation):
        now = (server.drafts, server.drafted, sum(server.positions), tuple(server.positions))
        created = server.created if with_creation else None
        before, self.polled = self.polled, (moment, *now, created)
        if before is None:
            self.tokens = server.tokens
            return
        began_again = created != before[5]
        fell = any(new < old for new, old in zip(now[:3], before[1:4], strict=True)) or any(
            new < old for new, old in zip(now[3], before[4], strict=False)
        )
        if not began_again and not fell:
            positions = [new - past for new, past in zip(now[3], before[4], strict=True)]
            difference = [new - past for new, past in zip(now[:3], before[1:4], strict=True)]
            # What cannot be one server's work, by more than a torn page, is a reset as well.
            if positions[0] - difference[0] > 16 or difference[2] - difference[1] > 16 * server.tokens:
                self.resets += 1
            else:
                self.add(before[0], moment, *difference, positions)
            return
        self.resets += 1
        if server.tokens != self.tokens:
            self.increments.clear()
            self.tokens = server.tokens
        if began_again and created - WALL > before[0]:
            self.add(created - WALL, moment, *now)

    def add(self, begin, end, *counts):
        self.increments.append((begin, end, *counts))
        self.total = [total + count for total, count in zip(self.total, counts[:3], strict=True)]

    def window(self, length):
        newest = self.polled[0]
        inside = [one for one in self.increments if one[0] >= newest - length - INTERVAL / 2]
        positions = [0] * self.tokens
        for *_, counts in inside:
            positions = [
                total + (counts[place] if place < len(counts) else 0) for place, total in enumerate(positions)
            ]
        return {
            "seconds": sum(end - begin for begin, end, *_ in inside),
            "polls": len(inside),
            "drafts": sum(one[2] for one in inside),
            "drafted": sum(one[3] for one in inside),
            "accepted": sum(one[4] for one in inside),
            "positions": tuple(positions),
        }


def shown(window):
    return {
        "seconds": window.seconds,
        "polls": window.polls,
        "drafts": window[Counter.DRAFTS],
        "drafted": window[Counter.DRAFT_TOKENS],
        "accepted": window[Counter.ACCEPTED_TOKENS],
        "positions": window.positions,
    }


eighths = st.integers(4, 12)
gaps = st.integers(1, 1200)
accepted_lengths = st.lists(st.integers(0, 6), max_size=6)
events = st.one_of(
    st.tuples(st.just("poll"), eighths),
    st.tuples(st.just("poll"), eighths),
    st.tuples(st.just("poll"), st.just(8)),
    st.tuples(st.just("outage"), gaps),
    st.tuples(st.just("restart"), st.integers(1, 5)),
    st.tuples(st.just("same restart"), st.just(0)),
    st.tuples(st.just("work"), accepted_lengths),
    st.tuples(st.just("work"), accepted_lengths),
)


@pytest.mark.parametrize("with_creation", [True, False])
@given(life=st.lists(events, max_size=80), tokens=st.integers(1, 5))
def test_windows_and_totals_are_those_of_adding_up_one_by_one(make_sample, with_creation, life, tokens):
    history, model = EngineHistory(WINDOWS[-1]), Model()
    moment = 0.0
    server = Server(tokens, WALL - 1.0)
    earlier = [0] * len(Counter)
    for event, value in life:
        if event == "work":
            server.work(value)
        elif event == "outage":
            moment += value / 8
        elif event == "restart":
            moment += 0.125
            # Without creation times a restart may be undetected; then another K is undetected too.
            server = Server(value if with_creation else tokens, WALL + moment)
        elif event == "same restart":
            moment += 0.125
            server = Server(server.tokens, WALL + moment)
        else:
            moment += value / 8
            sample = server.sample(make_sample, with_creation=with_creation)
            history.observe(sample, moment, WALL + moment, INTERVAL)
            model.poll(moment, server, with_creation=with_creation)
            for length in WINDOWS:
                assert shown(history.window(length)) == model.window(length)
            totals = history.totals()
            assert list(totals.counters[:3]) == model.total
            assert sum(totals.resets.values()) == model.resets
            assert all(new >= old for new, old in zip(totals.counters, earlier, strict=True))
            earlier = totals.counters


@given(
    pages=st.lists(
        st.tuples(
            st.lists(st.none() | st.integers(0, 2**83), min_size=len(Counter), max_size=len(Counter)),
            st.lists(st.integers(0, 2**53), max_size=4),
            st.none() | st.floats(0, 2e9),
            st.floats(-1e308, 1e308),
        ),
        max_size=30,
    )
)
def test_exported_counters_never_decrease_whatever_the_pages(make_sample, pages):
    history = EngineHistory(30.0)
    earlier = history.totals()
    for second, (counters, positions, created, running) in enumerate(pages):
        named = {one.name.lower(): value for one, value in zip(Counter, counters, strict=True)}
        sample = make_sample(positions=positions, created=created, running_requests=running, **named)
        history.observe(sample, float(second), 1e9 + second, 1.0)
        for length in (10.0, 30.0):
            assert history.window(length).polls <= second
        totals = history.totals()
        assert all(new >= old for new, old in zip(totals.counters, earlier.counters, strict=True))
        assert all(new >= old for new, old in zip(totals.positions, earlier.positions, strict=False))
        assert len(totals.positions) >= len(earlier.positions)
        assert totals.covered_seconds >= earlier.covered_seconds
        assert all(
            new[1] >= old[1] for new, old in zip(totals.poll_buckets, earlier.poll_buckets, strict=True)
        )
        assert totals.poll_sum == totals.counters[Counter.ACCEPTED_TOKENS]
        assert totals.poll_buckets[-1][1] == totals.counters[Counter.DRAFT_TOKENS]
        earlier = totals
