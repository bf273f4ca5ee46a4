"""Histories of engines in steps of time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.views.history import MAX_STEPS, default_step, history_view, min_step
from spec_decode_exporter.window.engine_history import EngineHistory

LABELS = {"target": "one", "model_name": "m", "engine": "0"}
OFFSET = 1_790_000_000.25


@pytest.fixture(scope="module")
def polled(make_sample):
    """Return a function that makes the longest window of an engine, polled at the given moments."""

    def polled(moments, **more):
        history = EngineHistory(300.0)
        for n, moment in enumerate(moments):
            sample = make_sample(
                10 * n,
                40 * n,
                15 * n,
                positions=(9 * n, 4 * n, 2 * n, 0),
                generation_tokens=30 * n,
                first_tokens=n,
                decode_steps=12 * n,
                running_requests=float(n % 4),
                **more,
            )
            history.observe(sample, moment, OFFSET + moment, 1.0)
        return history.window(300.0)

    return polled


def test_increments_are_added_up_in_steps(polled):
    view = history_view(LABELS, polled([float(second) for second in range(1, 22)]), 0.0, 5.0)
    assert view.time == (0.0, 5.0, 10.0, 15.0, 20.0)
    assert (view.polls, view.seconds) == ((4, 5, 5, 5, 1), (4.0, 5.0, 5.0, 5.0, 1.0))
    assert (view.drafts, view.draft_tokens) == ((40, 50, 50, 50, 10), (160, 200, 200, 200, 40))
    assert view.draft_acceptance_ratio == (0.375,) * 5
    assert view.acceptance_length_tokens == (2.5,) * 5
    assert view.effective_tokens_per_step == (29 / 12,) * 5
    assert view.running_requests[1] == pytest.approx((1 + 2 + 3 + 0 + 1) / 5)


def test_a_step_without_a_poll_is_absent(polled):
    view = history_view(LABELS, polled([1.0, 2.0, 3.0, 31.0, 32.0]), 0.0, 5.0)
    assert view.time == (0.0, 30.0)
    assert (view.polls, view.seconds) == ((3, 1), (30.0, 1.0)), "an increment counts where it begins"


def test_steps_begin_at_multiples_of_unix_time_at_every_request(polled):
    moments = [float(second) for second in range(1, 40)]
    earlier = history_view(LABELS, polled(moments[:30]), OFFSET, 5.0)
    later = history_view(LABELS, polled(moments), OFFSET, 5.0)
    assert all(time % 5 == 0 for time in later.time)
    assert later.time[: len(earlier.time)] == earlier.time
    assert later.drafts[: len(earlier.time) - 1] == earlier.drafts[:-1]


def test_counters_that_the_engine_lacks_are_null(polled, make_sample):
    history = EngineHistory(300.0)
    for second in range(5):
        history.observe(make_sample(generation_tokens=second), float(second), OFFSET + second, 1.0)
    view = history_view(LABELS, history.window(300.0), 0.0, 1.0)
    assert (view.drafts, view.decode_steps, view.running_requests) == (None, None, None)
    assert view.generation_tokens == (1, 1, 1, 1)
    assert view.draft_acceptance_ratio == view.effective_tokens_per_step == (None,) * 4


def test_an_engine_that_was_polled_once_has_no_steps_yet(polled):
    view = history_view(LABELS, polled([1.0]), OFFSET, 5.0)
    assert (view.time, view.polls, view.drafts, view.draft_acceptance_ratio) == ((), (), (), ())


@given(
    gaps=st.lists(st.floats(0.5, 20.0), min_size=2, max_size=60),
    step=st.floats(0.5, 60.0),
    offset=st.floats(0, 2e9),
)
def test_every_increment_is_counted_once(polled, gaps, step, offset):
    moments = [sum(gaps[: n + 1]) for n in range(len(gaps))]
    window = polled(moments)
    view = history_view(LABELS, window, offset, step)
    assert sum(view.drafts) == window[Counter.DRAFTS]
    assert sum(view.accepted_tokens) == window[Counter.ACCEPTED_TOKENS]
    assert sum(view.polls) == window.polls
    assert sum(view.seconds) == pytest.approx(window.seconds)
    assert list(view.time) == sorted(set(view.time))
    assert all(view.polls)


@pytest.mark.parametrize(("longest", "step"), [(30.0, 1.0), (300.0, 5.0), (3600.0, 60.0), (100.0, 2.0)])
def test_the_default_step_gives_about_sixty_steps(longest, step):
    assert default_step(longest) == step
    assert min_step(longest) == longest / MAX_STEPS < step
