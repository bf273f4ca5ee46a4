"""Histories of engines in steps of time, and the line of the page."""

import pytest

from spec_decode_exporter.views.history import TRACE_PIECES, acceptance_trace, history_view
from spec_decode_exporter.window.history import History
from tests.fakes.windows import polled

LABELS = {"target": "one", "model_name": "m", "engine": "0"}
OFFSET = 1_790_000_000.25


def drafting(make_sample, second):
    """Return the sample at a second: two draft tokens a second, of which one is accepted."""
    return make_sample(
        second,
        2 * second,
        second,
        positions=(second,),
        generation_tokens=5 * second,
        first_tokens=second,
        decode_steps=2 * second,
        running_requests=4.0,
    )


def test_steps_begin_at_multiples_of_their_length_in_unix_time(make_sample):
    window = polled([drafting(make_sample, second) for second in range(25)])
    view = history_view(LABELS, window, OFFSET, 10.0)
    assert view.time == (1_790_000_000.0, 1_790_000_010.0, 1_790_000_020.0)
    assert (view.polls, view.seconds) == ((10, 10, 4), (10.0, 10.0, 4.0))
    assert (view.drafts, view.draft_tokens, view.running_requests) == ((10, 10, 4), (20, 20, 8), (4.0,) * 3)
    assert view.draft_acceptance_ratio == (0.5,) * 3
    assert view.acceptance_length_tokens == view.effective_tokens_per_step == (2.0,) * 3


def trace(make_sample, skipped):
    """The line at the 400th second, one poll a second but for the ``skipped`` ones."""
    history = History(300.0)
    for second in range(401):
        if second not in skipped:
            history.observe(drafting(make_sample, second), 1000.0 + second, OFFSET + second, 1.0)
    return acceptance_trace(history.windows(300.0)[0], 1400.0)


def test_five_minutes_are_sixty_pieces_and_the_one_that_begins_and_those_without_polls_are_unknown(
    make_sample,
):
    seconds, ages, ratios = trace(make_sample, skipped=range(300, 330))
    assert (seconds, len(ages), len(ratios)) == (300, TRACE_PIECES + 1, TRACE_PIECES + 1)
    assert list(ages) == sorted(ages, reverse=True)
    assert set(ratios) == {0.5, None}
    unknown = [age for age, ratio in zip(ages, ratios, strict=True) if ratio is None and age > 1]
    assert unknown == pytest.approx([97.5, 92.5, 87.5, 82.5, 77.5, 72.5])


def test_an_engine_without_polls_has_no_steps():
    (window,) = History(300.0).windows(300.0)
    view = history_view(LABELS, window, OFFSET, 10.0)
    assert (view.time, view.polls, view.running_requests, view.draft_acceptance_ratio) == ((), (), (), ())
