"""State of speculation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.speculation_state import State, plain_state, state

SILENT = {"decode_steps": 500, "generation_tokens": 510, "first_tokens": 10}


@pytest.fixture(scope="module", name="found")
def found_fixture(make_window):
    """The state of an engine that drafted before, of which everything but what is given is ordinary."""

    def found(window=None, recent=None, **more):
        known = {
            "reachable": True,
            "speculates": True,
            "undecided": False,
            "drafted_before": True,
            "method": "eagle3",
            "scheduled_off": False,
            "min_drafts": 100,
        }
        longest = make_window(**{"drafts": 0, **(window or {})})
        recent = longest if recent is None else make_window(**recent)
        return state(window=longest, recent=recent, **{**known, **more})

    return found


def test_one_that_drafts_is_active(found):
    assert found({"drafts": 1}) is State.ACTIVE
    assert found({"drafts": 1, **SILENT}) is State.ACTIVE


def test_an_absent_engine_is_unreachable(found):
    assert found({"drafts": 1}, reachable=False) is State.UNREACHABLE
    assert found(SILENT, reachable=False, speculates=False) is State.UNREACHABLE


def test_one_without_speculation_is_disabled(found):
    assert found({"drafts": None, **SILENT}, speculates=False) is State.DISABLED
    assert found(SILENT, speculates=False, drafted_before=False) is State.DISABLED


def test_one_whose_speculation_is_not_known_yet_is_unknown_unless_it_is_absent(found):
    fresh = {"undecided": True, "speculates": False, "drafted_before": False}
    assert found({"drafts": 0}, **fresh) is State.UNKNOWN
    assert found({"drafts": 0, "decode_steps": 5}, **fresh) is State.UNKNOWN
    assert found({"drafts": 0}, reachable=False, **fresh) is State.UNREACHABLE


def test_one_with_nothing_to_do_is_idle(found):
    assert found() is State.IDLE
    nothing = {"decode_steps": 0, "generation_tokens": 0, "first_tokens": 0}
    assert found({"gauges": (0.0, 3.0, 0.5), **nothing}) is State.IDLE


def test_one_with_requests_that_run_is_not_idle(found):
    assert found({"gauges": (0.1, 0.0, 0.0)}) is State.ACTIVE
    assert found({"decode_steps": 1}) is State.ACTIVE


def test_one_that_stopped_drafting_is_stalled(found):
    assert found(SILENT) is State.STALLED
    assert found(SILENT, method="") is State.STALLED


def test_one_that_stopped_drafting_within_the_longest_window_is_stalled(found):
    drafted = {"drafts": 900, "decode_steps": 1500}
    assert found(drafted, recent={"drafts": 0, **SILENT}) is State.STALLED
    assert found(drafted, recent={"drafts": 1, **SILENT}) is State.ACTIVE
    assert found(drafted, recent={"drafts": 0, "decode_steps": 100}) is State.ACTIVE
    assert found(drafted, recent={"drafts": 0, "length": 120.0, "seconds": 101.0, **SILENT}) is State.ACTIVE


def test_one_without_any_increment_is_unknown(found):
    assert found({"seconds": 0.0, "gauges": (16.0, 0.0, 0.0)}) is State.UNKNOWN
    assert found({"seconds": 0.0}, speculates=False) is State.DISABLED


def test_the_plain_state_is_that_of_the_drafts(make_window):
    def plain(speculates=True, undecided=False, **window):
        return plain_state(make_window(**{"drafts": 0, **window}), speculates=speculates, undecided=undecided)

    assert plain(drafts=1) is State.ACTIVE
    assert plain() is State.IDLE
    assert plain(seconds=0.0) is State.UNKNOWN
    assert plain(speculates=False) is State.DISABLED
    assert plain(speculates=False, undecided=True) is State.UNKNOWN


@pytest.mark.parametrize(
    "excuse",
    [
        {"drafted_before": False},
        {"scheduled_off": True},
        {"method": "ngram"},
        {"method": "[ngram]"},
        {"method": "ngram_gpu"},
        {"method": "N-gram"},
        {"method": "suffix"},
        {"method": "suffix_decoding"},
    ],
    ids=str,
)
def test_one_that_has_no_reason_to_draft_is_not(found, excuse):
    assert found(SILENT, **excuse) is State.ACTIVE


def test_only_a_whole_window_can_be_stalled(found):
    assert found({"length": 300.0, "seconds": 255.0, **SILENT}) is State.STALLED
    assert found({"length": 300.0, "seconds": 254.0, **SILENT}) is State.ACTIVE


@pytest.mark.parametrize(
    ("decoded", "expected"),
    [
        ({"decode_steps": 101, "generation_tokens": 0, "first_tokens": 0}, State.STALLED),
        ({"decode_steps": 100, "generation_tokens": 900, "first_tokens": 0}, State.ACTIVE),
        # Steps unknown: without drafts, as many as tokens after the first
        ({"generation_tokens": 111, "first_tokens": 10}, State.STALLED),
        ({"generation_tokens": 110, "first_tokens": 10}, State.ACTIVE),
        # First tokens unknown as well
        ({"generation_tokens": 101}, State.STALLED),
        ({"generation_tokens": 100}, State.ACTIVE),
        ({"gauges": (5.0, 0.0, 0.0)}, State.ACTIVE),
    ],
    ids=str,
)
def test_a_stall_needs_more_decode_steps_than_min_drafts(found, decoded, expected):
    assert found(decoded) is expected


@given(
    facts=st.fixed_dictionaries(
        {name: st.booleans() for name in ("reachable", "speculates", "drafted_before", "scheduled_off")}
    ),
    drafts=st.sampled_from([None, 0, 5]),
    steps=st.sampled_from([None, 0, 5, 500]),
    seconds=st.floats(0, 30),
    method=st.sampled_from(["", "ngram", "mtp"]),
)
def test_there_is_always_one_and_a_stall_is_always_silence(found, facts, drafts, steps, seconds, method):
    one = found({"drafts": drafts, "decode_steps": steps, "seconds": seconds}, method=method, **facts)
    assert [one is member for member in State].count(True) == 1
    assert (one is State.UNREACHABLE) == (not facts["reachable"])
    if one in (State.STALLED, State.IDLE):
        assert not drafts
    if one is State.STALLED:
        assert steps == 500
