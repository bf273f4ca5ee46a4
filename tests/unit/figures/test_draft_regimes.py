"""Draft regimes: found with a schedule that changes K, and not with drafts of varying lengths."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_decode_exporter.figures.acceptance import acceptance_length_tokens
from spec_decode_exporter.figures.draft_regimes import DraftRegime, draft_regimes
from spec_decode_exporter.figures.positions import (
    accepted_length_ratios,
    conditional_acceptance_ratios,
    decay_ratio,
    drafted_up_to,
    drafts_with,
    highest_survival,
    position_acceptance_ratios,
)
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.simulation import Simulation


def increment(lengths, accepted, tokens):
    """Return an increment of drafts with these numbers of draft tokens and of accepted tokens."""
    return {
        "drafts": len(lengths),
        "draft_tokens": sum(lengths),
        "accepted_tokens": sum(accepted),
        "positions": [sum(each > place for each in accepted) for place in range(tokens)],
    }


@pytest.fixture(name="window_of", scope="module")
def window_of_fixture(make_window):
    def window_of(increments, tokens=4):
        names = ("drafts", "draft_tokens", "accepted_tokens")
        positions = [sum(one["positions"][place] for one in increments) for place in range(tokens)]
        return make_window(
            *(sum(one[name] for one in increments) for name in names),
            positions=positions,
            increments=increments,
        )

    return window_of


def accepted_of(generator, length, acceptance):
    return next((place for place in range(length) if generator.random() >= acceptance), length)


def scheduled(generator, lengths, acceptance=0.8, drafts=50, tokens=4):
    """Return an increment for each of the lengths that a schedule chose."""
    return [
        increment(
            [length] * drafts, [accepted_of(generator, length, acceptance) for _ in range(drafts)], tokens
        )
        for length in lengths
    ]


def test_a_schedule_that_changes_k_has_a_regime_for_each_number_of_tokens(window_of):
    first, second = increment([4] * 10, [4] * 6 + [0] * 4, 4), increment([2] * 30, [2] * 15 + [1] * 15, 4)
    assert draft_regimes(window_of([first, second, first])) == (
        DraftRegime(2, 30, (30, 15)),
        DraftRegime(4, 20, (12, 12, 12, 12)),
    )


def test_a_position_counts_the_drafts_that_had_it(window_of):
    first, second = increment([4] * 10, [4] * 6 + [0] * 4, 4), increment([2] * 30, [2] * 15 + [1] * 15, 4)
    window = window_of([first, second])
    assert position_acceptance_ratios(window) == [36 / 40, 21 / 40, 6 / 10, 6 / 10]
    assert conditional_acceptance_ratios(window) == [36 / 40, 21 / 36, 6 / 6, 6 / 6]
    assert decay_ratio(window) == (15 + 18) / (30 + 18)
    assert [drafts_with(window, position) for position in range(4)] == [40, 40, 10, 10]
    assert [highest_survival(window, position) for position in range(4)] == [0.9, 0.525, 0.6, 0.6]
    assert [drafted_up_to(window, tokens) for tokens in range(5)] == [0, 1, 2, 90 / 40, 100 / 40]


def test_accepted_lengths_are_of_all_drafts(window_of):
    window = window_of([increment([4] * 10, [4] * 10, 4), increment([2] * 30, [0] * 30, 4)])
    assert accepted_length_ratios(window) == [0.75, 0, 0, 0, 0.25]
    assert acceptance_length_tokens(window) == 2.0


def test_a_position_that_no_draft_had_has_no_value(window_of):
    window = window_of([increment([2] * 50, [2] * 25 + [0] * 25, 4)] * 4)
    assert position_acceptance_ratios(window) == [0.5, 0.5, None, None]
    assert conditional_acceptance_ratios(window) == [0.5, 1.0, None, None]
    assert decay_ratio(window) == 1.0


@given(st.lists(st.integers(1, 4), min_size=20, max_size=40), st.integers(0, 2**32))
@settings(max_examples=50)
def test_every_position_shows_the_same_acceptance_as_with_a_constant_k(window_of, lengths, seed):
    generator = random.Random(seed)
    window = window_of(scheduled(generator, lengths, drafts=400))
    for position, share in enumerate(position_acceptance_ratios(window)):
        number = 400 * sum(length > position for length in lengths)
        if number >= 2000:
            assert share == pytest.approx(0.8 ** (position + 1), abs=5 * 0.5 / number**0.5)


def test_increments_during_which_k_changed_are_left_out(window_of):
    generator = random.Random(1)
    mixed = increment([4] * 20 + [2] * 30, [0] * 50, 4)
    window = window_of([*scheduled(generator, [4] * 8 + [2] * 8), mixed])
    assert [regime.drafts for regime in draft_regimes(window)] == [400, 400]
    assert position_acceptance_ratios(window)[3] == pytest.approx(0.8**4, abs=0.1)


def test_mostly_mixed_increments_have_no_regimes(window_of):
    mixed = increment([4] * 20 + [2] * 30, [0] * 50, 4)
    assert draft_regimes(window_of([increment([2] * 50, [0] * 50, 4), mixed, mixed])) == ()


def test_drafts_of_k_tokens_are_computed_as_before(window_of):
    window = window_of(scheduled(random.Random(2), [4] * 10))
    assert draft_regimes(window) == ()
    assert drafts_with(window, 0) is drafted_up_to(window, 2) is None


@pytest.mark.parametrize("drafts", [1, 3, 10, 40, 200])
@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (0, 0, 1, 9), (1, 0, 0, 9), (9, 0, 0, 1), (1, 2, 0, 0)])
def test_drafts_of_varying_lengths_are_computed_as_before(window_of, drafts, weights):
    """As those of an n-gram or suffix search, in busy and in quiet increments."""
    generator = random.Random(7)
    for _ in range(20):
        increments = []
        for _ in range(60):
            lengths = generator.choices((1, 2, 3, 4), weights, k=drafts)
            accepted = [accepted_of(generator, length, 0.7) for length in lengths]
            increments.append(increment(lengths, accepted, 4))
        window = window_of(increments)
        assert draft_regimes(window) == ()
        counted = zip(window.positions, position_acceptance_ratios(window), strict=True)
        assert all(share == accepted / (60 * drafts) for accepted, share in counted)


def test_a_rare_short_regime_changes_nothing(window_of):
    window = window_of(scheduled(random.Random(3), [4] * 30 + [2]))
    assert draft_regimes(window) == ()


def simulated(speculation, rate=4.0, seconds=180):
    """Return the increments of a simulated server, one a second, after a minute."""
    scenario = Scenario.model_validate(
        {
            "description": "a schedule",
            "speculation": {"tokens": 4, **speculation},
            "acceptance": {"mean": 0.6, "spread": 0.12, "decay": 0.9},
            "load": {"rate": rate},
            "machine": {"saturation": 128, "max_requests": 96},
        }
    )
    simulation, totals = Simulation(scenario, 1), []
    for moment in range(60, 60 + seconds):
        simulation.advance(moment - simulation.now)
        (engine,) = simulation.life.engines
        counts = engine.counts
        totals.append(
            (counts.drafts, counts.draft_tokens, counts.accepted_tokens, *counts.accepted_by_position)
        )
    names = ("drafts", "draft_tokens", "accepted_tokens")
    for before, after in pairwise(totals):
        more = [new - old for old, new in zip(before, after, strict=True)]
        yield {**dict(zip(names, more[:3], strict=True)), "positions": more[3:]}


def test_a_simulated_schedule_shows_nearly_the_acceptance_of_a_constant_k(window_of):
    """At this load the batch is above and below 16 requests, in turn."""
    schedule = {"tokens_per_batch_size": [[1, 16, 4], [17, 96, 2]]}
    constant, scheduled_window = (window_of(list(simulated(each))) for each in ({}, schedule))
    assert [regime.tokens for regime in draft_regimes(scheduled_window)] == [2, 4]
    truth, found = map(position_acceptance_ratios, (constant, scheduled_window))
    assert found == pytest.approx(truth, abs=0.025)
    of_all_drafts = scheduled_window.positions[2] / scheduled_window.counters[Counter.DRAFTS]
    assert of_all_drafts < truth[2] / 1.5


def test_a_simulated_search_is_computed_as_before(window_of):
    assert draft_regimes(window_of(list(simulated({"method": "ngram"})))) == ()


def test_a_window_without_positions_or_drafts_has_no_regimes(make_window):
    assert draft_regimes(make_window(10, 30, 15)) == ()
    assert draft_regimes(make_window()) == ()
    assert draft_regimes(make_window(10, 30, 5, positions=(5, 0, 0, 0))) == ()
