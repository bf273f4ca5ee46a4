"""Steps at each load that limit the cost at others."""

import pytest

from spec_decode_exporter.learned.steps import MIN_SEEN_SECONDS, Steps, StepTimes

WALL = 1_790_000_000.0


def times(load, time, polls, *, running=None, drafting=1.0, uncached=0.0):
    """Steps at one load whose time alternates by 10 %."""
    found = StepTimes()
    for second in range(polls):
        each = time * (0.9 if second % 2 else 1.1)
        number = load / each
        drafts = drafting * number
        its = Steps(number, load, 1.0, load, drafts, 3 * drafts, running or load, uncached, 2000.0, 2.0)
        found.add(its, WALL + second)
    return found


def test_each_load_has_its_tokens_and_a_lower_limit_of_its_time():
    low, high = sorted([*times(2.0, 0.02, 400).seen(), *times(8.0, 0.03, 400).seen()])
    assert (low.tokens, low.contexts, low.drafting, low.draft_tokens) == pytest.approx(
        (8, 2000, 1, 3), rel=1e-3
    )
    assert (high.tokens, high.contexts) == pytest.approx((32, 8000), rel=1e-3)
    assert 0.95 * 0.0198 < low.seconds < 0.0198 * 0.98, "weighted by steps, and below the mean"
    (plain,) = [*times(8.0, 0.03, 400, drafting=0.0).seen()]
    assert (plain.tokens, plain.drafting, plain.draft_tokens) == pytest.approx((8, 0, 0), rel=1e-3)


def test_few_polls_have_a_lower_limit_than_many():
    few, many = (next(times(8.0, 0.03, polls).seen()).seconds for polls in (31, 3000))
    assert few < 0.96 * many
    assert not [*times(8.0, 0.03, int(MIN_SEEN_SECONDS) - 1).seen()]


def test_requests_that_the_gauge_shows_and_prompts_count_as_tokens():
    (step,) = [*times(2.0, 0.02, 400, running=4.0).seen()]
    assert step.tokens == pytest.approx(16, rel=1e-3)
    (step,) = [*times(2.0, 0.02, 400, uncached=100.0).seen()]
    assert step.tokens == pytest.approx(8 + 2, rel=0.02)


def test_an_evaluation_knows_the_steps_of_its_engine(watched, busy_sample):
    watch, _ = watched([busy_sample(n) for n in range(1, 80)])
    (step,) = watch.snapshot.evaluation.known.load_range
    assert (step.drafting, step.draft_tokens) == pytest.approx((400 / 420, 3200 / 420))
    assert step.seconds == pytest.approx(20 / 420, rel=0.1)
    assert step.seconds < 20 / 420
