"""Recordings of real servers: counts and figures equal the sums over the servers' own responses."""

import re
from datetime import UTC, datetime

import pytest

from spec_decode_exporter.analysis.verdict import State
from spec_decode_exporter.config.load import load
from spec_decode_exporter.drops.sums import DropKind
from spec_decode_exporter.history.recording import RecordingClock, read_recording, replay
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.target_monitor import Shared
from tests.fakes.replayed_metrics import recorded_targets
from tests.paths import DATA

RECORDINGS = DATA / "traces" / "engines"


class Replayed:
    """A recording that was run through the live monitors: the engine, its last snapshot, and its events."""

    def __init__(self, path):
        polls = list(read_recording(path))
        clock = RecordingClock(polls[0].moment, polls[0].wall)
        fleet = Fleet(load(None, environ={}), Shared(clock, spread=False))
        self.events = fleet.shared.events
        fleet.watch(recorded_targets(path))
        self.lengths = []
        (monitor,) = fleet
        for poll in replay(polls, fleet, clock):
            ((_, self.snapshot),) = monitor.snapshots() or [({}, None)]
            bounds = self.snapshot.evaluation.longest.acceptance_length_bounds
            self.lengths.append((poll.wall, bounds))
        self.last_page = polls[-1].page.decode()

    def times(self, name):
        return [datetime.fromtimestamp(each.time, UTC) for each in self.events.kept if each.type == name]


@pytest.fixture(scope="module", name="drop")
def drop_fixture():
    return Replayed(RECORDINGS / "llamacpp-b10434-draft-k4-drop.recording.gz")


def test_the_counts_are_those_of_the_responses(drop):
    """Those of all requests that ended after the first poll."""
    total = drop.snapshot.totals.counters
    counted = total.draft_tokens, total.accepted_tokens, total.generation_tokens
    assert counted == (458_210, 231_067, 351_319)
    assert sum(drop.snapshot.totals.positions) == total.accepted_tokens
    assert (drop.snapshot.broken, drop.times("engine_reset")) == (frozenset(), [])


def test_another_temperature_is_a_drop_within_seconds_and_its_end_a_recovery(drop):
    """0 until 13:19:21 UTC, 0.8 until 13:21:52."""
    (began,), (ended,) = drop.times("acceptance_dropped"), drop.times("acceptance_recovered")
    assert 0 <= (began - datetime(2026, 11, 28, 13, 19, 21, tzinfo=UTC)).total_seconds() <= 15
    assert 0 <= (ended - datetime(2026, 11, 28, 13, 21, 52, tzinfo=UTC)).total_seconds() <= 30


def test_text_that_does_not_repeat_itself_is_a_drop_of_drafting_within_a_minute():
    """A vLLM with n-gram serves from 19:45:09 UTC on. From 19:47:43 on new requests have temperature 1, not 0.

    Requests that run end as they began, in a quarter of a minute.
    """
    replayed = Replayed(RECORDINGS / "vllm-0.32.0-ngram-silent.recording.gz")
    change = datetime(2026, 11, 28, 19, 47, 43, tzinfo=UTC)
    [began] = replayed.times("drafting_dropped")
    assert 0 <= (began - change).total_seconds() <= 60
    assert replayed.times("acceptance_dropped") == replayed.times("drafting_recovered") == []
    drop = replayed.snapshot.drops.live[DropKind.DRAFTING]
    assert (drop.baseline_length, drop.length) == (pytest.approx(1.945, abs=0.01), pytest.approx(1, abs=0.01))
    total = replayed.snapshot.totals.counters
    assert (total.drafts, total.accepted_tokens) == (2920, 5360), "sums over the server's responses"


def test_bounds_by_the_polls_in_which_requests_ended_hold_the_length_of_steady_traffic(drop):
    """llama.cpp counts no requests. The length is that of the four minutes before the drop."""
    end = datetime(2026, 11, 28, 13, 19, 21, tzinfo=UTC).timestamp()
    bounds = [each for wall, each in drop.lengths if wall < end and each is not None]
    assert len(bounds) > 40
    assert sum(each.lower <= 3.571 <= each.upper for each in bounds) / len(bounds) >= 0.9


@pytest.mark.parametrize(
    ("name", "coverage", "tokens"),
    [("synth", 3563 / 3629, 3.360), ("ngsimple", 873 / 14_246, 1.102), ("pmin", 107 / 8791, 1.013)],
)
def test_tokens_a_step_are_those_of_the_server_and_not_those_of_a_draft(name, coverage, tokens):
    """The server's own decode calls times their slots say the same: 3.395, 1.103 and 1.013."""
    replayed = Replayed(RECORDINGS / f"llamacpp-b11434-{name}.recording.gz")
    evaluation = replayed.snapshot.evaluation
    assert evaluation.longest.speedup_ceiling_ratio == pytest.approx(tokens, abs=0.001)
    assert evaluation.longest.coverage_ratio == pytest.approx(coverage, abs=0.001)
    assert evaluation.state is State.ACTIVE
    counts = dict(re.findall(r"^llamacpp:(\w+) (\S+)$", replayed.last_page, re.MULTILINE))
    spent = float(counts["tokens_predicted_seconds_total"]) / float(counts["tokens_predicted_total"])
    assert evaluation.longest.time_per_output_token_seconds == pytest.approx(spent, rel=0.01)
