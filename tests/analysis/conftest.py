"""Windows made by hand."""

from __future__ import annotations

import pytest

from exporter.scrape.engines import Counter
from exporter.window.ledger import MEAN_GAUGES, Window


@pytest.fixture(scope="session")
def make_window():
    def make_window(
        drafts=None, draft_tokens=None, accepted=None, *, positions=(), length=30.0, seconds=30.0, **more
    ):
        """Make a window; ``more`` are counters by their names in lower case, ``gauges`` and ``increments``."""
        speculation = {"drafts": drafts, "draft_tokens": draft_tokens, "accepted_tokens": accepted}
        gauges = more.pop("gauges", (None,) * len(MEAN_GAUGES))
        increments = more.pop("increments", ())
        counters = tuple(more.pop(one.name.lower(), speculation.get(one.name.lower())) for one in Counter)
        assert not more, more
        return Window(length, seconds, 30, counters, tuple(positions), gauges, increments)

    return make_window
