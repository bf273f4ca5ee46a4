from __future__ import annotations

from itertools import pairwise
from random import Random
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.simulator.scenario import Outputs, Scenario
from spec_decode_exporter.simulator.simulated_request import (
    CACHE_BLOCK,
    draw_length,
    draw_request,
    draw_share,
)
from spec_decode_exporter.simulator.timeline import changes


def draw(seed, tokens=4, longest=8192, **keys):
    conditions = next(changes(Scenario.model_validate(keys))).conditions
    return draw_request(Random(seed), conditions, 5.0, tokens, longest)


@given(st.integers(0, 1000), st.integers(2, 300), st.integers(1, 500), st.integers(1, 500), st.floats(0, 1))
def test_a_request_fits_into_the_model_and_computes_at_least_one_token(
    seed, longest, prompts, outputs, cached
):
    request = draw(
        seed,
        longest=longest,
        prompts={"mean": prompts, "max": prompts, "cached": cached},
        outputs={"mean": outputs, "max": outputs},
    )
    assert request.prompt + request.output <= longest
    assert 1 <= request.output <= request.max_tokens <= outputs
    assert request.to_compute == request.prompt - request.cached >= 1
    assert request.cached % CACHE_BLOCK == 0


@given(st.integers(0, 1000), st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 1))
def test_survival_never_rises_from_position_to_position(seed, mean, spread, decay):
    survival = draw(seed, tokens=8, acceptance={"mean": mean, "spread": spread, "decay": decay}).survival
    assert len(survival) == 8
    assert all(0 <= later <= earlier <= 1 for earlier, later in pairwise(survival))


def test_without_spread_survival_follows_from_mean_and_decay():
    survival = draw(0, tokens=3, acceptance={"mean": 0.8, "spread": 0, "decay": 0.5}).survival
    assert survival == pytest.approx([0.8, 0.8 * 0.4, 0.8 * 0.4 * 0.2])


def test_shares_have_the_requested_mean_and_spread():
    random = Random(1)
    shares = [draw_share(random, 0.7, 0.1) for _ in range(20_000)]
    assert fmean(shares) == pytest.approx(0.7, abs=0.005)
    assert pstdev(shares) == pytest.approx(0.1, abs=0.005)


def test_lengths_have_the_requested_mean():
    random = Random(1)
    lengths = Outputs(mean=200, spread=0.6, max=100_000)
    assert fmean(draw_length(random, lengths) for _ in range(20_000)) == pytest.approx(200, rel=0.02)
