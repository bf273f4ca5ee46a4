"""Acceptance: the worked examples of docs/explanation/semantics.md, a recorded page, and figures without a value."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.figures import acceptance, positions
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.scrape.page.sample import EngineName
from spec_decode_exporter.scrape.page.sample_reader import SampleReader

PAGE = Path(__file__).parents[1] / "pages" / "vllm-0.32.0-python-ngram-k4.prom"

FORMULAS = [
    acceptance.draft_acceptance_ratio,
    acceptance.acceptance_length_tokens,
    acceptance.draft_length_tokens,
    acceptance.coverage_ratio,
    acceptance.effective_tokens_per_step,
]


def test_a_good_drafter(make_window):
    # p = .80 .65 .50 .35: length 3.30, rate .575, decay .769
    window = make_window(100, 400, 230, positions=(80, 65, 50, 35))
    assert acceptance.acceptance_length_tokens(window) == pytest.approx(3.30)
    assert acceptance.draft_acceptance_ratio(window) == pytest.approx(0.575)
    assert positions.decay_ratio(window) == pytest.approx(0.769, abs=5e-4)


def test_a_poor_drafter(make_window):
    # p = .40 .15 .05 .01
    window = make_window(100, 400, 61, positions=(40, 15, 5, 1))
    assert acceptance.acceptance_length_tokens(window) == pytest.approx(1.61)
    assert acceptance.draft_acceptance_ratio(window) == pytest.approx(0.1525)


@pytest.fixture(name="recorded")
def recorded_fixture(make_sample):
    """The window from nothing to a recorded page of n-gram drafts."""
    watch = EngineMonitor((30.0,))
    zeros = dict.fromkeys(
        ("generation_tokens", "first_tokens", "decode_steps", "decode_nanoseconds", "preemptions"), 0
    )
    watch.observe(make_sample(0, 0, 0, positions=(0,) * 4, **zeros), 0.0, 1e9, 1.0, 10.0)
    samples = finish(SampleReader().read(PAGE.read_bytes(), with_latencies=True)).samples
    # Of one server: without its creation time, which the page before lacks.
    watch.observe(samples[EngineName("tiny-llama", "0")], 1.0, 1e9 + 1, 1.0, 10.0)
    return watch.snapshot(1.0).windows[0]


def test_a_recorded_page_of_n_gram_drafts(recorded):
    # 41 drafts, 122 draft tokens, 74 accepted; 120 tokens, the first by the prefill, in 45 steps
    assert acceptance.draft_acceptance_ratio(recorded) == 74 / 122
    assert acceptance.acceptance_length_tokens(recorded) == 1 + 74 / 41
    assert acceptance.draft_length_tokens(recorded) == 122 / 41
    assert acceptance.coverage_ratio(recorded) == 41 / 45
    assert acceptance.effective_tokens_per_step(recorded) == (120 - 1) / 45
    assert acceptance.rejected_tokens(recorded) == 48
    assert positions.position_acceptance_ratios(recorded) == [29 / 41, 18 / 41, 14 / 41, 13 / 41]
    assert positions.conditional_acceptance_ratios(recorded) == [29 / 41, 18 / 29, 14 / 18, 13 / 14]
    assert positions.decay_ratio(recorded) == (18 + 14 + 13) / (29 + 18 + 14)


def test_with_low_coverage_the_length_exceeds_the_effective_tokens(make_window):
    # Half the steps draft, each of those gives 3 tokens: a step gives 2.
    window = make_window(50, 200, 100, decode_steps=100, generation_tokens=202, first_tokens=2)
    assert acceptance.acceptance_length_tokens(window) == 3.0
    assert acceptance.coverage_ratio(window) == 0.5
    assert acceptance.effective_tokens_per_step(window) == 2.0


def test_with_full_coverage_and_no_discarded_token_effective_tokens_equal_the_length(make_window):
    window = make_window(100, 400, 230, decode_steps=100, generation_tokens=335, first_tokens=5)
    assert acceptance.effective_tokens_per_step(window) == acceptance.acceptance_length_tokens(window)


def test_a_torn_page_may_exceed_1_and_is_shown_as_it_is(make_window):
    assert acceptance.coverage_ratio(make_window(102, decode_steps=100)) == 1.02


@pytest.mark.parametrize("formula", FORMULAS)
def test_0_over_0_has_no_value(make_window, formula):
    idle = make_window(0, 0, 0, decode_steps=0, generation_tokens=0, first_tokens=0)
    assert formula(idle) is None


@pytest.mark.parametrize("formula", [*FORMULAS, acceptance.rejected_tokens])
def test_a_figure_of_an_unknown_counter_has_no_value(make_window, formula):
    assert formula(make_window()) is None


def test_without_accepted_tokens_the_length_is_1(make_window):
    window = make_window(10, 40, 0)
    assert acceptance.acceptance_length_tokens(window) == 1.0
    assert acceptance.draft_acceptance_ratio(window) == 0.0


@given(
    drafts=st.integers(1, 10**9),
    tokens=st.integers(1, 16),
    rates=st.lists(st.floats(0, 1), min_size=16, max_size=16),
)
def test_length_rate_and_draft_length_agree(make_window, drafts, tokens, rates):
    accepted_at, reached = [], drafts
    for rate in rates[:tokens]:
        reached = int(reached * rate)
        accepted_at.append(reached)
    accepted = sum(accepted_at)
    window = make_window(drafts, tokens * drafts, accepted, positions=accepted_at)
    rate = acceptance.draft_acceptance_ratio(window)
    length = acceptance.acceptance_length_tokens(window)
    assert 0 <= rate <= 1
    assert 1 <= length <= 1 + tokens
    assert length == pytest.approx(1 + rate * acceptance.draft_length_tokens(window))
    assert length == pytest.approx(1 + sum(positions.position_acceptance_ratios(window)))
