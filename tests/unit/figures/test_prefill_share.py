"""Share of prefills: exact steps give it back, noise and rare prompts raise it, steady prompts leave it unknown."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.figures.prefill_share import CURVATURE, highest_share
from spec_decode_exporter.figures.window_figures import WindowFigures
from spec_decode_exporter.window.engine_windows import NANO
from tests.fakes.windows import summed

ALONE = 0.02  # seconds of a step without prompts


def polls(each_token, *, noise=0.0, prompts=(0, 6000), number=300, seed=1):
    """Steps, their time, uncached tokens and seconds: a prompt token works in its own second and the next."""
    random = Random(seed)
    counted = [random.randint(*prompts) for _ in range(number)]
    rates = [(one + before) / 2 for one, before in zip(counted, counted[:1] + counted, strict=False)]
    times = [ALONE / (1 - each_token * rate) * random.gauss(1, noise) for rate in rates]  # y = t + p·u·y
    steps = [random.randint(400, 1200) for _ in rates]
    return steps, [number * time for number, time in zip(steps, times, strict=True)], counted, [1.0] * number


def true_share(steps, spent):
    return 1 - ALONE * sum(steps) / sum(spent)


@given(each_token=st.floats(0, 1e-4), seed=st.integers(0, 99))
def test_it_is_that_of_exact_steps_with_the_margin_of_a_line(each_token, seed):
    found = polls(each_token, seed=seed)
    assert highest_share(*found) == pytest.approx(CURVATURE * true_share(*found[:2]), abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_above_the_truth_with_noise(seed):
    found = polls(3e-5, noise=0.1, seed=seed)
    truth = true_share(*found[:2])
    assert truth < highest_share(*found) < CURVATURE * (truth + 0.1)


@pytest.mark.parametrize(
    "unknown",
    [
        polls(3e-5, number=2),
        polls(3e-5, prompts=(2000, 2000)),
        ([0, 0, 0], [0.0] * 3, [5, 6, 7], [1.0] * 3),
        ([], [], [], []),
    ],
    ids=["two polls", "as many prompts in each", "no steps", "nothing"],
)
def test_it_is_unknown_if_polls_do_not_show_steps_without_prompts(unknown):
    assert highest_share(*unknown) is None


def figures(waited=0.1, hits=0):
    """Figures of five minutes; all requests wait ``waited`` seconds each second for their first token."""
    steps, spent, uncached, _ = polls(3e-5, noise=0.02)
    rows = [
        {
            "drafts": number,
            "draft_tokens": 3 * number,
            "accepted_tokens": 0,
            "decode_steps": number,
            "decode_nanoseconds": round(itl * NANO),
            "generation_tokens": 2 * number + 1,
            "first_tokens": 1,
            "first_token_nanoseconds": round(waited * NANO),
            "prefix_cache_queries": tokens,
            "prefix_cache_hits": tokens * hits,
        }
        for number, itl, tokens in zip(steps, spent, uncached, strict=True)
    ]
    window = summed(rows, length=300.0, seconds=300.0, gauges=(16.0, 0.0, 0.5))
    return WindowFigures(window), true_share(steps, spent), sum(uncached), sum(steps)


def test_a_window_shows_it_by_its_polls():
    found, truth, *_ = figures()
    assert truth < found.prefill_share_ratio < CURVATURE * (truth + 0.03)


def test_where_requests_wait_it_is_that_of_the_tokens():
    found, _, uncached, steps = figures(waited=2.0)
    assert found.prefill_share_ratio == pytest.approx(uncached / (uncached + steps + 3 * steps))


def test_cached_prompts_take_no_time():
    assert figures(hits=1)[0].prefill_share_ratio == 0
