from __future__ import annotations

import pytest

from exporter.analysis.engine import JUDGED_EVERY
from exporter.baselines import Baselines
from exporter.config.schema import Config
from exporter.event_log import EventLog
from exporter.fleet import JUDGED_ANEW, Fleet


class Watch:
    """Stands in for the watch over a target, and keeps what it is asked."""

    def __init__(self):
        self.asked = []
        self.item = {"target": "one"}

    def findings(self, now, most_behind):
        self.asked.append((now, most_behind))
        return iter(())


@pytest.mark.parametrize(
    ("targets", "most_behind"), [(1, 0.0), (JUDGED_ANEW, 0.0), (JUDGED_ANEW + 1, JUDGED_EVERY)]
)
def test_only_a_large_fleet_is_not_judged_anew_for_every_question(clock, targets, most_behind):
    fleet = Fleet(Config(), clock, Baselines(), EventLog("1"))
    watches = {(f"http://{number}", ""): Watch() for number in range(targets)}
    fleet._watches = watches
    assert not list(fleet.engines())
    assert {asked for watch in watches.values() for asked in watch.asked} == {
        (clock.monotonic(), most_behind)
    }
