"""Comparison of two measurements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.experiments.traffic import Traffic
from spec_decode_exporter.reports.reference.comparison import DRAFT_TOKENS, Comparison, Outcome
from spec_decode_exporter.reports.reference_document import (
    MeasuredFigure,
    MeasuredHistogram,
    Measurement,
)
from spec_decode_exporter.scrape.engines import Latency


def exactly(value, half=0.0):
    return MeasuredFigure(value=value, lower=value - half, upper=value + half)


def measurement(rate=None, half=0.0, tokens=4, **more):
    """Return a measurement by the keys of figures; each is a value, or a value and its half-width."""
    quantities = {
        name: exactly(*(value if isinstance(value, tuple) else (value,))) for name, value in more.items()
    }
    if rate is not None:
        found = MeasuredFigure(value=rate) if half is None else exactly(rate, half)
        quantities["draft_acceptance_ratio"] = found
    shares = tuple(exactly(0.8 - 0.1 * place) for place in range(tokens))
    return Measurement(
        seconds=300.0, polls=300, counts={}, position_accepted_tokens=(1,) * tokens, quantities=quantities,
        position_acceptance_ratio=shares, position_conditional_acceptance_ratio=shares, latency_seconds={},
    )  # fmt: skip


def outcome(after, half, threshold=0.05, before=0.7):
    """Return the outcome if only the later rate has an error."""
    return Comparison(measurement(before), measurement(after, half), threshold).outcome


@pytest.mark.parametrize(
    ("after", "half", "expected"),
    [
        (0.60, 0.04, Outcome.FELL),
        (0.60, 0.06, Outcome.UNCERTAIN),
        (0.63, 0.04, Outcome.UNCERTAIN),
        (0.66, 0.005, Outcome.LOWER),
        (0.66, 0.02, Outcome.UNCERTAIN),
        (0.69, 0.02, Outcome.SAME),
        (0.70, 0.06, Outcome.UNCERTAIN),
        (0.71, 0.02, Outcome.SAME),
        (0.75, 0.02, Outcome.BETTER),
        (0.75, None, Outcome.UNCERTAIN),
        (None, None, Outcome.UNCERTAIN),
    ],
)
def test_only_a_certain_fall_counts(after, half, expected):
    assert outcome(after, half) is expected


def test_the_threshold_may_be_0():
    assert outcome(0.69, 0.001, threshold=0.0) is Outcome.FELL
    assert outcome(0.70, 0.001, threshold=0.0) is Outcome.UNCERTAIN


def test_another_number_of_draft_tokens_is_not_comparable():
    found = Comparison(measurement(0.7, tokens=4), measurement(0.5, tokens=6), 0.05)
    assert found.outcome is Outcome.NOT_COMPARABLE
    assert found.cautions[0].reason == DRAFT_TOKENS
    assert len(found.positions) == 4


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.3), st.floats(0, 0.5))
def test_an_outcome_follows_from_the_bounds(before, after, half, threshold):
    found = Comparison(measurement(before), measurement(after, half), threshold)
    change = found.acceptance
    assert (found.outcome is Outcome.FELL) is (change.upper < -threshold)
    if found.outcome in (Outcome.SAME, Outcome.LOWER, Outcome.BETTER):
        assert change.lower >= -threshold
    if found.outcome is Outcome.BETTER:
        assert change.lower > 0
    if found.outcome is Outcome.LOWER:
        assert change.upper < 0


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.3), st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_higher_threshold_never_makes_a_fall(before, after, half, threshold, more):
    results = [
        Comparison(measurement(before), measurement(after, half), limit).outcome
        for limit in (threshold, threshold + more)
    ]
    assert results[0] is Outcome.FELL or results[1] is not Outcome.FELL


@pytest.mark.parametrize(
    ("reason", "quantity", "before", "alike", "other"),
    [
        (Traffic.LOAD, "running_requests", 10.0, 14.9, 15.1),
        (Traffic.LOAD, "running_requests", 10.0, 6.7, 6.6),
        (Traffic.OUTPUT_TOKENS, "output_tokens_per_request", 200.0, 249.0, 251.0),
        (Traffic.PROMPT_TOKENS, "prompt_tokens_per_request", 400.0, 321.0, 319.0),
        (Traffic.COVERAGE, "coverage_ratio", 0.5, 0.41, 0.39),
    ],
)
def test_unlike_measurements_have_a_caution(reason, quantity, before, alike, other):
    def cautions(after):
        found = Comparison(
            measurement(0.7, **{quantity: before}), measurement(0.7, **{quantity: after}), 0.05
        )
        return [(caution.reason, caution.before, caution.after) for caution in found.cautions]

    assert cautions(alike) == []
    assert cautions(other) == [(reason, before, other)]


@pytest.mark.parametrize(("hits", "cautions"), [(0.29, 0), (0.31, 1)])
def test_prefix_cache_hits_count_by_the_tokens_that_are_computed_of_a_request(hits, cautions):
    lengths = {"prompt_tokens_per_request": 400.0, "output_tokens_per_request": 100.0}
    before, after = (measurement(0.7, **lengths, prefix_cache_hit_ratio=each) for each in (0.2, hits))
    found = Comparison(before, after, 0.05).cautions
    assert found == ((Traffic.PREFIX_CACHE, 0.2, hits),) * cautions


def test_a_slower_server_under_equal_arrivals_has_no_caution_about_its_load():
    before, after = (measurement(0.7, requests_per_second=2.0, running_requests=each) for each in (8.0, 16.0))
    assert Comparison(before, after, 0.05).cautions == ()


def test_load_is_compared_per_engine():
    busy = measurement(0.7, running_requests=32.0)
    assert Comparison(busy, busy, 0.05, engines=(2, 1)).cautions == ((Traffic.LOAD, 16.0, 32.0),)


def test_a_server_without_drafts_has_no_other_number_of_draft_tokens():
    found = Comparison(measurement(tokens=0), measurement(0.7), 0.05)
    assert (found.outcome, found.cautions) == (Outcome.UNCERTAIN, ())


def test_differences_by_chance_are_no_caution():
    found = Comparison(
        measurement(0.7, output_tokens_per_request=(200.0, 40.0)),
        measurement(0.7, output_tokens_per_request=(260.0, 50.0)),
        0.05,
    )
    assert found.cautions == ()


def test_figures_of_one_side_only_are_omitted():
    quiet = measurement(0.7)
    busy = measurement(0.7, running_requests=4.0)
    assert "running_requests" not in Comparison(quiet, busy, 0.05).quantities
    assert "running_requests" not in Comparison(busy, quiet, 0.05).quantities


def test_quantiles_of_both_sides_are_compared():
    def with_queue(latency, p50):
        histogram = MeasuredHistogram(bounds=(0.5,), counts=(3, 3), p50=p50, p95=exactly(0.4), p99=None)
        return measurement(0.7).model_copy(update={"latency_seconds": {latency: histogram}})

    before = with_queue(Latency.QUEUE, None)
    found = Comparison(before, with_queue(Latency.QUEUE, exactly(0.1)), 0.05).latencies
    assert [(latency, quantile.name) for latency, quantile in found] == [(Latency.QUEUE, "p95")]
    assert Comparison(before, with_queue(Latency.END_TO_END, None), 0.05).latencies == {}


def test_a_load_whose_running_requests_only_one_side_knows_has_no_caution():
    before = measurement(0.7, requests_per_second=2.0)
    after = measurement(0.7, requests_per_second=20.0, running_requests=8.0)
    assert Comparison(before, after, 0.05).cautions == ()
