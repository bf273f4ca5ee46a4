"""Evidence that is missing for a verdict."""

from dataclasses import replace
from math import inf

import pytest

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.missing_evidence import Evidence, Need, missing
from spec_decode_exporter.analysis.verdict import SpeedupRange
from spec_decode_exporter.analysis.window_evaluation import MIN_VERDICT_REQUESTS, WindowEvaluation
from spec_decode_exporter.figures.estimate import MIN_BOUND_REQUESTS, Estimate
from tests.fakes.evaluations import busy_window, knowledge

UNKNOWN = object()


def after(seconds, requests=None, *, drafts=100, polls=None):
    """The evaluation after these seconds, in which that many requests passed one after the other."""
    its = busy_window(seconds=seconds, drafts=drafts)
    if requests is not None:
        first = None if requests is UNKNOWN else requests * 4  # four run at a time
        its = replace(its, total=its.total._replace(first_tokens=first))
    return Evaluation([replace(its, polls=polls or its.polls)], knowledge())


@pytest.mark.parametrize(
    ("seconds", "more", "needs"),
    [
        (34, {"drafts": 2}, [(Evidence.DRAFTS, 100, 68)]),
        (40, {"polls": 2}, [(Evidence.POLLS, 3, 2)]),
        # Few requests: more of them, or half of the longest window
        (
            34,
            {"requests": 3},
            [(Evidence.REQUESTS, MIN_BOUND_REQUESTS, 3 / 1.4), (Evidence.SECONDS, 150.0, 34)],
        ),
        (8, {"requests": 30, "drafts": 400}, [(Evidence.SECONDS, 15.0, 8)]),
        (84, {"requests": UNKNOWN}, [(Evidence.SECONDS, 150.0, 84)]),
        (300, {"requests": 1}, [(Evidence.REQUESTS, MIN_VERDICT_REQUESTS, 1 / 1.4)]),
        # With a verdict
        (300, {}, []),
    ],
)
def test_more_data_are_needed(seconds, more, needs):
    found = after(seconds, **more).missing
    assert [need.evidence for need in found] == [evidence for evidence, *_ in needs]
    assert [need[1:] for need in found] == [pytest.approx(numbers) for _, *numbers in needs]


def test_bounds_since_a_change_need_more_time_than_the_first_ones():
    since = busy_window(seconds=20, length=20.0)
    its = Evaluation([busy_window()], replace(knowledge(), since_change=since, change_wall=0.0))
    assert its.missing == (Need(Evidence.SECONDS, 25.5, 20),)
    assert its.countdown == pytest.approx((5.5, 5.5))


@pytest.mark.parametrize(
    ("length", "need"),
    [
        (Estimate(2.0, 1.2, 2.4, 0.3), Need(Evidence.HALF_WIDTH, 0.25, pytest.approx(0.4))),
        # A speed-up that may be below 1 needs a higher lower bound.
        (Estimate(2.0, 1.8, 2.2, 0.1), Need(Evidence.LOWEST_SPEEDUP, 1.0, 0.59)),
    ],
)
def test_a_whole_window_needs_narrower_bounds(length, need):
    its = WindowEvaluation(busy_window(), knowledge())
    its.acceptance_length_bounds = length
    its.speedup_range = SpeedupRange(Estimate(1.59, 0.59, 3.76, 0.5), 1.54, 1.64)
    assert missing(its, 300.0) == (need,)


@pytest.mark.parametrize(
    ("seconds", "more", "bounds", "verdict"),
    [
        (8, {"requests": 30}, 7.0, 7.0),
        # 1 in 20 s counts as 0.71: 5 in 140 s
        (20, {"requests": 1}, 120.0, 120.0),
        # 0.4 count as 0.29: 5 in 350 s, 1.4 in 98 s
        (20, {"requests": 0.4}, inf, 130.0),
        (20, {"requests": 0}, inf, inf),
        (34, {"requests": 30, "drafts": 2}, 0.0, 16.0),
        (200, {"requests": 30, "drafts": 0.25}, 0.0, inf),
        # With a verdict, without drafts, with two polls, over a whole window there is none.
        *((*case, None, None) for case in ((300, {}), (20, {"drafts": 0}), (20, {"polls": 2}))),
        (300, {"requests": 1}, None, None),
    ],
)
def test_the_time_to_bounds_and_verdict_is_extrapolated_at_the_present_rate(seconds, more, bounds, verdict):
    expected = None if bounds is None else pytest.approx((bounds, verdict))
    assert after(seconds, **more).countdown == expected
