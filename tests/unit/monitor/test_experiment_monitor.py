"""Repeated comparisons of all experiments, and their results for the engines."""

from dataclasses import replace

from spec_decode_exporter.config.comparison_settings import ExperimentSettings
from spec_decode_exporter.monitor import fleet
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.fleet import ExperimentMonitor
from tests.fakes.arms import EAGLE, NANO, NOW, PLAIN, SETTINGS, member, window_of

NGRAM = EAGLE | {"decode_nanoseconds": 8 * NANO, "end_to_end_nanoseconds": 8_800_000_000}


def settings_of(name, baseline="a"):
    arms = {arm: {"match": {"spec": arm}} for arm in "ab"}
    return ExperimentSettings.model_validate({"name": name, "arms": arms, "baseline": baseline})


async def test_a_reload_keeps_the_state_of_an_unchanged_experiment(monkeypatch):
    asked, compare = [], fleet.compare
    monkeypatch.setattr(fleet, "compare", lambda *given: asked.append(given[-1]) or compare(*given))
    compared = ExperimentMonitor()
    for settings in (settings_of("one"), settings_of("one"), settings_of("one", baseline="b")):
        compared.adopt([settings])
        await compared.compare([], (30.0,), 1000.0)
    assert asked[0] is asked[1]
    assert asked[2] is not asked[1]


class TestResults:
    """Two arms that draft and their baseline, compared until results are confirmed."""

    def members(self, **models):
        return {
            name: (
                member(name, window_of(work, now=NOW), model_name=models.get(name, "m")),
                EngineMonitor((300.0,)),
            )
            for name, work in (("off", PLAIN), ("eagle", EAGLE), ("ngram", NGRAM))
        }

    async def compared(self, members, *settings):
        monitor = ExperimentMonitor()
        monitor.adopt(settings or [SETTINGS])
        for now in (NOW, NOW + 300):
            each = (replace_window(one, now) for one in members.values())
            await monitor.compare(each, (300.0,), now)
        return monitor

    async def test_engines_that_draft_have_the_steps_of_the_baseline_and_the_slower_one_the_better_method(
        self,
    ):
        members = self.members()
        await self.compared(members)
        off, eagle, ngram = (members[name][1] for name in ("off", "eagle", "ngram"))
        assert [list(each.arms) for each in (off, eagle, ngram)] == [[], [off.learned], [off.learned]]
        assert [each.faster and each.faster.method for each in (off, eagle, ngram)] == [None, None, "eagle"]


def replace_window(each, now):
    """Return the member with the same work until ``now``."""
    work = {"off": PLAIN, "eagle": EAGLE, "ngram": NGRAM}[each[0].labels["method"]]
    return replace(each[0], windows=(window_of(work, now=now),)), each[1]
