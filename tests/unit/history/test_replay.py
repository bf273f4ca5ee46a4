"""A replay runs recorded polls through the live monitors, by the recording's clock."""

import pytest

from spec_decode_exporter.config.load import load
from spec_decode_exporter.history import replay as replay_module
from spec_decode_exporter.history.recording import RecordingError
from spec_decode_exporter.history.replay import RecordingClock, new_targets, replay
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.shared import Shared
from spec_decode_exporter.scrape.poll_record import RawPoll
from tests.paths import DATA

PAGE = (DATA / "pages/vllm-0.32.0-python-ngram-k4.prom").read_bytes()


def fleet_of(clock, targets, **overrides):
    shared = Shared(clock, spread=False)
    fleet = Fleet(load(None, environ={}, overrides=overrides), shared)
    fleet.watch(targets)
    return fleet


def polls_of(*pages, target="a"):
    return [
        RawPoll(target, float(moment), 1.8e9 + moment, page, None if page else "timeout")
        for moment, page in pages
    ]


async def test_failures_and_unreadable_pages_are_failed_polls():
    clock = RecordingClock(0.0, 1.8e9)
    fleet = fleet_of(clock, new_targets(["a", "b"]))
    polls = polls_of((0, PAGE), (1, None), (2, b"vllm:spec_decode_num_drafts_total{ 1\n"))
    list(replay(polls, fleet, clock))
    first, second = (monitor.status().record for monitor in fleet)
    assert (first.up, first.failures, first.polls) == (False, {"timeout": 1, "malformed": 1}, 3)
    assert (second.up, second.polls) == (None, 0)


async def test_a_recording_whose_every_page_has_new_engines_is_bounded_as_a_whole(monkeypatch):
    """200 pages with 256 new engines each would take minutes."""
    monkeypatch.setattr(replay_module, "MAX_RECORDED_ENGINES", 5)
    clock = RecordingClock(0.0, 1.8e9)
    fleet = fleet_of(clock, new_targets(["a", "b"]))
    pages = [PAGE.replace(b'engine="0"', b'engine="%d"' % number) for number in range(10)]
    polls = [*polls_of(*enumerate([*pages[:3], *pages[:3]])), *polls_of(*enumerate(pages, 6), target="b")]
    replayed = replay(polls, fleet, clock)
    assert [next(replayed).target for _ in range(8)] == ["a"] * 6 + ["b"] * 2
    with pytest.raises(RecordingError, match="more than 5 engines"):
        next(replayed)
