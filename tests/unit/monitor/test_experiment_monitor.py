"""Results of experiments for the engines of their arms."""

from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.experiment_monitor import ExperimentMember, ExperimentMonitor
from tests.fakes.arms import EAGLE, NANO, NOW, PLAIN, SETTINGS, member, window_of

NGRAM = EAGLE | {"decode_nanoseconds": 8 * NANO, "end_to_end_nanoseconds": 8_800_000_000}


async def test_after_a_whole_window_arms_that_draft_have_the_baseline_and_the_slower_one_the_better_method():
    work = {"off": PLAIN, "eagle": EAGLE, "ngram": NGRAM}
    engines = {name: EngineMonitor((300.0,)) for name in work}
    monitor = ExperimentMonitor()
    monitor.adopt([SETTINGS])
    for now in (NOW, NOW + 300):
        members = [
            ExperimentMember(member(name, window_of(each, now=now)), engines[name])
            for name, each in work.items()
        ]
        await monitor.compare(members, (300.0,), now)
    off, eagle, ngram = engines.values()
    assert [list(each.arms) for each in (off, eagle, ngram)] == [[], [off.learned], [off.learned]]
    assert [each.faster and each.faster.method for each in (off, eagle, ngram)] == [None, None, "eagle"]
