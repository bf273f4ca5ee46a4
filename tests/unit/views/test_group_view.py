"""Groups of engines: every ratio is a ratio of sums, of the engines with both counters."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.views.fleet_view import group_view, grouped
from tests.fakes.windows import window


def group_views(engines, names):
    return [group_view(*group) for group in grouped(engines, names)]


def labels(engine, **more):
    return {"target": "one", "model_name": "m", "engine": str(engine), **more}


@pytest.fixture(scope="module")
def with_window(busy):
    """Return a function that makes a snapshot with the given windows."""
    return lambda *windows: replace(busy, evaluation=Evaluation(windows, Knowledge()))


def counted(counters, positions=(), seconds=30.0, running=None):
    """Return a window of 30 s; counters that are not named are unknown."""
    counters = dict(counters)
    first = [counters.pop(name, None) for name in ("drafts", "draft_tokens", "accepted_tokens")]
    return window(*first, positions=positions, seconds=seconds, gauges=(running,), **counters)


COUNTS = ("drafts", "draft_tokens", "accepted_tokens", "generation_tokens", "first_tokens", "decode_steps")
WINDOWS = st.builds(
    counted,
    st.dictionaries(
        st.sampled_from((*COUNTS, "decode_nanoseconds")), st.one_of(st.none(), st.integers(0, 10**9))
    ),
    seconds=st.floats(1, 60),
    running=st.one_of(st.none(), st.floats(0, 100)),
)
RATIOS = {
    "draft_acceptance_ratio": ("accepted_tokens", "draft_tokens", 0),
    "acceptance_length_tokens": ("accepted_tokens", "drafts", 1),
    "draft_length_tokens": ("draft_tokens", "drafts", 0),
    "coverage_ratio": ("drafts", "decode_steps", 0),
}
SPECULATION = ("drafts", "draft_tokens", "accepted_tokens")


FEW = settings(max_examples=40)


def count_of(its, name):
    return getattr(its.total, name)


@FEW
@given(windows=st.lists(WINDOWS, min_size=1, max_size=6))
def test_ratios_of_a_group_are_ratios_of_sums(with_window, windows):
    (group,) = group_views([(labels(n), with_window(each)) for n, each in enumerate(windows)], ["model_name"])
    (shown,) = group.windows
    for name, (above, below, plus) in RATIOS.items():
        needed = SPECULATION if below != "decode_steps" else (above, below)
        valued = [each for each in windows if count_of(each, below)]
        both = [each for each in valued if all(count_of(each, one) is not None for one in needed)]
        numerator = sum(count_of(each, above) for each in both)
        denominator = sum(count_of(each, below) for each in both)
        expected = float(Fraction(numerator, denominator) + plus) if denominator else None
        assert getattr(shown, name) == (None if expected is None else pytest.approx(expected)), name


def test_a_group_of_one_engine_has_the_engine_s_values(busy):
    (group,) = group_views([(labels(0), busy)], ["engine"])
    assert [each.window for each in group_view({}, [(labels(0), busy)], ["5m"]).windows] == ["5m"]
    for shown, own in zip(group.windows, EngineView(labels=labels(0), snapshot=busy).windows, strict=True):
        for name in type(shown).model_computed_fields.keys() - {"window", "engines"}:
            expected = getattr(own, name)
            assert getattr(shown, name) == getattr(expected, "value", expected), name


@pytest.mark.parametrize("order", [1, -1])
def test_an_engine_that_does_not_verify_all_its_drafts_is_in_no_ratio_to_them(with_window, order):
    plain, adaptive = (
        with_window(
            counted({"drafts": 10, "draft_tokens": 30, "accepted_tokens": accepted}, [accepted, 0, 0])
        )
        for accepted in (9, 3)
    )
    known = Knowledge(Speculation(is_adaptive=True))
    windows = [its.window for its in adaptive.evaluation.windows]
    adaptive = replace(adaptive, evaluation=Evaluation(windows, known))
    (group,) = group_views([(labels(0), each) for each in (plain, adaptive)[::order]], ["model_name"])
    (shown,) = group.windows
    assert (shown.draft_acceptance_ratio, shown.acceptance_length_tokens) == (0.3, 1.6)
    assert shown.position_acceptance_ratio == (0.9, 0, 0)


def test_positions_of_different_k_are_never_mixed(with_window):
    counts = {"drafts": 10, "draft_tokens": 30, "accepted_tokens": 15}
    engines = [(labels(k), with_window(counted(counts, [5] * k))) for k in (3, 4)]
    (group,) = group_views(engines, ["model_name"])
    assert group.windows[0].position_acceptance_ratio == ()
    assert group.windows[0].counts.position_accepted_tokens == ()
    assert group.windows[0].draft_acceptance_ratio == 0.5
