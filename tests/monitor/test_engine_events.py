"""Events of one engine, each once."""

from __future__ import annotations

import pytest

from spec_decode_exporter.analysis.depth import Depth
from spec_decode_exporter.analysis.drops.drop import DropChange, DropKind
from spec_decode_exporter.analysis.evaluation_result import Evaluation
from spec_decode_exporter.analysis.finding import Finding, FindingName, Severity
from spec_decode_exporter.analysis.recommendation import Action
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.monitor.engine_events import LOGGED_AFTER, EngineChangeNotifier, drop_event

FINDING = Finding(FindingName.CLIFF, Severity.WARNING, {}, "")


def evaluated(verdict=Verdict.HEALTHY, state=State.ACTIVE, action=Action.COLLECT, tokens=None):
    depth = None if tokens is None else Depth(tokens, 2.0, extrapolated=False)
    return Evaluation(state, verdict, action, recommended=depth, findings=(FINDING,))


@pytest.fixture(name="notifier")
def notifier_fixture():
    return EngineChangeNotifier()


def told(notifier, evaluation, now):
    return [event.name for event in notifier.changes(evaluation, now)]


class TestAVerdict:
    def test_has_an_event_with_the_findings(self, notifier):
        (event,) = notifier.changes(evaluated(), 0.0)
        assert (event.name, event.is_bad) == ("verdict_changed", False)
        assert event.fields == {
            "verdict": "healthy",
            "before": "",
            "findings": ["cliff"],
        }

    def test_has_one_event(self, notifier):
        notifier.changes(evaluated(), 0.0)
        assert told(notifier, evaluated(), 5.0) == told(notifier, evaluated(), 500.0) == []

    def test_that_changes_has_an_event_after_a_minute(self, notifier):
        notifier.changes(evaluated(), 0.0)
        assert told(notifier, evaluated(Verdict.HARMFUL), 5.0) == []
        assert told(notifier, evaluated(Verdict.HARMFUL), 4.9 + LOGGED_AFTER) == []
        (event,) = notifier.changes(evaluated(Verdict.HARMFUL), 5.0 + LOGGED_AFTER)
        assert (event.fields["verdict"], event.fields["before"], event.is_bad) == ("harmful", "healthy", True)

    def test_that_alternates_has_no_event(self, notifier):
        notifier.changes(evaluated(), 0.0)
        for second in range(0, 600, 10):
            verdict = Verdict.MARGINAL if second // 10 % 2 else Verdict.HEALTHY
            assert told(notifier, evaluated(verdict), 10.0 + second) == []

    def test_that_is_insufficient_for_a_while_has_no_event(self, notifier):
        notifier.changes(evaluated(), 0.0)
        assert told(notifier, evaluated(Verdict.INSUFFICIENT), 5.0) == []
        assert told(notifier, evaluated(Verdict.INSUFFICIENT), 500.0) == []
        assert told(notifier, evaluated(), 505.0) == []


def test_other_advice_has_an_event(notifier):
    notifier.changes(evaluated(), 0.0)
    (event,) = notifier.changes(evaluated(action=Action.DECREASE, tokens=3), 300.0)
    assert (event.name, event.is_bad) == ("recommendation_changed", False)
    assert event.fields == {
        "recommendation": "decrease",
        "before": "",
        "recommended_tokens": 3,
        "verdict": "healthy",
    }
    assert told(notifier, evaluated(action=Action.COLLECT), 305.0) == []
    assert told(notifier, evaluated(action=Action.DECREASE, tokens=3), 310.0) == []
    (event,) = notifier.changes(evaluated(action=Action.DECREASE, tokens=2), 900.0)
    assert (event.fields["before"], event.fields["recommended_tokens"]) == ("decrease", 2)


def test_a_stall_has_an_event_at_its_begin_and_at_its_end(notifier):
    insufficient = Verdict.INSUFFICIENT
    assert told(notifier, evaluated(insufficient), 0.0) == []
    (event,) = notifier.changes(evaluated(insufficient, State.STALLED), 5.0)
    assert (event.name, event.is_bad) == ("drafting_stalled", True)
    assert told(notifier, evaluated(insufficient, State.STALLED), 10.0) == []
    assert told(notifier, evaluated(insufficient, State.IDLE), 15.0) == ["drafting_no_longer_stalled"]


def test_another_state_has_an_event_with_the_one_before(notifier):
    insufficient = Verdict.INSUFFICIENT
    assert told(notifier, evaluated(insufficient, State.IDLE), 0.0) == []
    (event,) = notifier.changes(evaluated(insufficient, State.ACTIVE), 5.0)
    assert (event.name, event.is_bad) == ("state_changed", False)
    assert event.fields == {"state": "active", "before": "idle"}
    assert told(notifier, evaluated(insufficient, State.ACTIVE), 10.0) == []


def test_a_stall_in_the_first_evaluation_has_an_event(notifier):
    assert told(notifier, evaluated(Verdict.INSUFFICIENT, State.STALLED), 0.0) == ["drafting_stalled"]


class TestAnEngineThatIsGone:
    @pytest.mark.parametrize("is_bad", [True, False])
    def test_has_one_event_and_another_at_its_return(self, notifier, is_bad):
        told(notifier, evaluated(), 0.0)
        (event,) = notifier.gone(is_bad=is_bad)
        assert (event.name, event.is_bad) == ("state_changed", is_bad)
        assert event.fields == {"state": "unreachable", "before": "active"}
        assert notifier.gone(is_bad=is_bad) == []
        (event,) = notifier.changes(evaluated(), 60.0)
        assert (event.name, event.is_bad) == ("state_changed", False)
        assert event.fields == {"state": "active", "before": "unreachable"}
        assert len(notifier.gone(is_bad=is_bad)) == 1

    def test_without_an_evaluation_has_an_event_too(self, notifier):
        (event,) = notifier.gone(is_bad=True)
        assert event.fields == {"state": "unreachable", "before": ""}

    def test_ends_a_stall_that_has_an_event_again_later(self, notifier):
        assert told(notifier, evaluated(Verdict.INSUFFICIENT, State.STALLED), 0.0) == ["drafting_stalled"]
        (event,) = notifier.gone(is_bad=True)
        assert (event.name, event.fields["before"]) == ("state_changed", "stalled")
        (event,) = notifier.changes(evaluated(Verdict.INSUFFICIENT, State.STALLED), 60.0)
        assert (event.name, event.fields["before"]) == ("drafting_stalled", "unreachable")


class TestTheConfiguredTokens:
    def tell(self, notifier, now, *tokens_and_resets):
        return [event.fields for event in notifier.changes(evaluated(), now, *tokens_and_resets)[:1]]

    def test_have_an_event_when_they_reset_the_windows(self, notifier):
        notifier.changes(evaluated(), 0.0, 5, 0)
        assert notifier.changes(evaluated(), 5.0, 5, 0) == []
        (event,) = notifier.changes(evaluated(), 10.0, 3, 1)
        assert (event.name, event.is_bad) == ("configured_tokens_changed", False)
        assert event.fields == {"configured_tokens": 3, "before": 5}
        assert notifier.changes(evaluated(), 15.0, 3, 1) == []

    def test_that_a_server_shows_one_by_one_have_no_event(self, notifier):
        for second, tokens in enumerate((0, 1, 2, 5)):
            assert [event.name for event in notifier.changes(evaluated(), second, tokens, 0)] in (
                [],
                ["verdict_changed"],
            )

    def test_are_remembered_over_a_restart_until_the_first_draft(self, notifier):
        for second, tokens in enumerate((5, 0, 0)):
            notifier.changes(evaluated(), second, tokens, 0)
        assert self.tell(notifier, 10.0, 3, 1) == [{"configured_tokens": 3, "before": 5}]

    def test_that_stay_the_same_with_another_method_have_no_event(self, notifier):
        notifier.changes(evaluated(), 0.0, 5, 0)
        assert notifier.changes(evaluated(), 5.0, 5, 1) == []
        assert self.tell(notifier, 10.0, 3, 2) == [{"configured_tokens": 3, "before": 5}]

    def test_of_an_engine_that_speculates_no_more_are_none(self, notifier):
        notifier.changes(evaluated(), 0.0, 5, 0)
        assert self.tell(notifier, 5.0, 0, 1) == [{"configured_tokens": 0, "before": 5}]
        assert self.tell(notifier, 10.0, 4, 2) == [{"configured_tokens": 4, "before": 0}]


def test_other_traffic_that_explains_a_fall_has_an_event_that_is_not_bad():
    event = drop_event(DropChange(DropKind.SLOW, False, 2.6, 2.1, 7200.0, traffic=True), 1_790_000_000.0)
    assert (event.name, event.is_bad, event.fields["acceptance_length"]) == ("traffic_changed", False, 2.1)


@pytest.mark.parametrize(
    ("dropped", "learned_again", "name"),
    [
        (True, False, "acceptance_dropped"),
        (False, False, "acceptance_recovered"),
        (False, True, "acceptance_baseline_reset"),
    ],
)
def test_a_drop_has_an_event_with_its_numbers(dropped, learned_again, name):
    change = DropChange(DropKind.SUDDEN, dropped, 2.1004, 1.4, 8.04, 9.0, learned_again)
    event = drop_event(change, 1_790_000_009.0)
    assert (event.name, event.is_bad) == (name, dropped)
    assert event.fields == {
        "kind": "sudden",
        "baseline_acceptance_length": 2.1,
        "acceptance_length": 1.4,
        "seconds": 8.0,
        "since": "2026-09-21T14:13:20Z",
    }


@pytest.mark.parametrize(
    ("dropped", "learned_again", "name"),
    [
        (True, False, "drafting_dropped"),
        (False, False, "drafting_recovered"),
        (False, True, "drafting_baseline_reset"),
    ],
)
def test_a_drop_of_drafting_has_an_event_with_tokens_per_step(dropped, learned_again, name):
    change = DropChange(DropKind.DRAFTING, dropped, 2.1004, 1.02, 8.04, 9.0, learned_again)
    event = drop_event(change, 1_790_000_009.0)
    assert (event.name, event.is_bad) == (name, dropped)
    assert event.fields == {
        "baseline_tokens_per_step": 2.1,
        "tokens_per_step": 1.02,
        "seconds": 8.0,
        "since": "2026-09-21T14:13:20Z",
    }


def test_a_slow_drop_began_at_no_moment():
    event = drop_event(DropChange(DropKind.SLOW, True, 2.1, 1.9, 600.0), 1_790_000_009.0)
    assert event.fields["since"] == ""
