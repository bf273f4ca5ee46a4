"""Windows made by hand."""

from __future__ import annotations

from itertools import accumulate

import pytest

from exporter.scrape.engines import Counter
from exporter.window.counts import Increment
from exporter.window.ledger import MEAN_GAUGES, Increments, Window, rows_of
from exporter.window.ring import Rows


def _rows(seconds=1.0, positions=(), gauges=(0.0, 0.0, 0.0), **counters):
    """One increment as the ledger keeps it; counters by their names in lower case."""
    names = [one.name.lower() for one in Counter]
    assert counters.keys() <= set(names), counters
    counts = tuple(counters.get(name, 0) for name in names)
    return rows_of(Increment(0.0, seconds, counts, tuple(positions)), gauges)


def _totals(rows):
    """Add up row by row."""
    empty = [0] * max(map(len, rows), default=0)
    return Rows.of(
        list(
            accumulate(rows, lambda before, row: list(map(sum, zip(before, row, strict=True))), initial=empty)
        )
    )


@pytest.fixture(scope="session")
def make_increments():
    def make_increments(*increments):
        """Make increments, each of a dict of counters, and ``positions``, ``gauges`` and ``seconds``."""
        rows = [_rows(**one) for one in increments]
        counts, times = [[row[which] for row in rows] for which in (0, 1)]
        return Increments((_totals(counts), _totals(times)))

    return make_increments


@pytest.fixture(scope="session")
def make_window(make_increments):
    def make_window(
        drafts=None, draft_tokens=None, accepted=None, *, positions=(), length=30.0, seconds=30.0, **more
    ):
        """Make a window; ``more`` are counters by their names in lower case, ``gauges`` and ``increments``.

        Increments are dicts as ``make_increments`` takes them.
        """
        speculation = {"drafts": drafts, "draft_tokens": draft_tokens, "accepted_tokens": accepted}
        gauges = more.pop("gauges", (None,) * len(MEAN_GAUGES))
        increments = make_increments(*more.pop("increments", ()))
        counters = tuple(more.pop(one.name.lower(), speculation.get(one.name.lower())) for one in Counter)
        assert not more, more
        return Window(length, seconds, 30, counters, tuple(positions), gauges, increments)

    return make_window
