from __future__ import annotations

import asyncio

import pytest

from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.requests import prompt_lengths
from spec_decode_exporter.requests.request_aggregate import SLICE_SUMMED
from spec_decode_exporter.requests.request_findings import Effect, Percentiles


@pytest.fixture(name="prompts")
def prompts_fixture(make_store, make_request, evaluate):
    """Function that returns the findings of each model about requests of these attributes."""

    def prompts(attributes, now=1000.0, **settings):
        store = make_store(**settings)
        for each in attributes:
            store.take(make_request(**each), now)
        return {each.model_name: each for each in evaluate(store, now).prompts}

    return prompts


def test_a_bucket_has_its_upper_bound_and_the_last_one_everything_above(prompts):
    lengths = (0, 1, 1000, 1001, 4000, 16_001, 64_000, 64_001, 10_000_000)
    (found,) = prompts([{"prompt_tokens": length} for length in lengths]).values()
    assert [(each.prompt_tokens, each.summary.totals.requests) for each in found.buckets] == [
        ("0-1000", 3),
        ("1000-4000", 2),
        ("16000-64000", 2),
        (">64000", 2),
    ]
    assert found.buckets[1].mean_prompt_tokens == 2500.5


def test_each_model_has_its_own_and_requests_of_unknown_length_are_left_out(prompts):
    found = prompts(
        [
            {"model_name": "a", "prompt_tokens": 5},
            {"model_name": "a"},
            {"model_name": "b"},
            {"model_name": "c", "prompt_tokens": 5},
        ]
    )
    assert list(found) == ["a", "c"]
    assert found["a"].buckets[0].summary.totals.requests == 1


def test_a_bucket_has_acceptance_speed_up_first_token_and_the_cached_share(prompts):
    requests = [
        {
            "drafts": 30,
            "accepted_tokens": 30 + number % 2 * 60,
            "prompt_tokens": 100,
            "cached_tokens": 50 if number < 10 else None,
            "first_token_seconds": number / 10 if number else None,
            "completion_tokens": 200,
        }
        for number in range(40)
    ]
    (bucket,) = prompts(requests)["llama"].buckets
    assert bucket.acceptance_length.value == pytest.approx(3.0)
    assert bucket.acceptance_length.lower < 3.0 < bucket.acceptance_length.upper
    assert bucket.cached_ratio == 0.5
    assert bucket.time_to_first_token_seconds == Percentiles(*map(pytest.approx, (0.48, 2.0, 3.52)))
    assert bucket.summary.speedup_ratio.value > 1
    assert bucket.effect is Effect.GAINS


def test_too_few_requests_have_no_bounds_and_requests_without_drafts_do_not_count(prompts):
    requests = [{"prompt_tokens": 9}] * 29 + [{"drafts": 0, "accepted_tokens": 0, "prompt_tokens": 9}] * 5
    (bucket,) = prompts(requests)["llama"].buckets
    assert bucket.summary.totals.requests == 34
    assert bucket.acceptance_length is None
    assert (bucket.cached_ratio, bucket.time_to_first_token_seconds) == (None, None)


def test_the_sums_of_slices_are_those_of_all(prompts, monkeypatch):
    requests = [
        {"accepted_tokens": number % 100, "prompt_tokens": 3 * number, "first_token_seconds": number / 7}
        for number in range(2 * SLICE_SUMMED + 3)
    ]
    whole = prompts(requests)
    monkeypatch.setattr(prompt_lengths, "SLICE_SUMMED", 7)
    parts = prompts(requests)
    for one, other in zip(whole["llama"].buckets, parts["llama"].buckets, strict=True):
        assert one.acceptance_length.value == pytest.approx(other.acceptance_length.value)
        assert one.mean_prompt_tokens == other.mean_prompt_tokens
        assert one.time_to_first_token_seconds == other.time_to_first_token_seconds


def test_acceptance_that_falls_with_the_prompt_is_found(prompts):
    short = [{"drafts": 30, "accepted_tokens": 35 + n % 9, "prompt_tokens": 2000 + n} for n in range(40)]
    long = [{"drafts": 30, "accepted_tokens": n % 5, "prompt_tokens": 20_000 + n} for n in range(40)]
    fall = prompts([*short, *long])["llama"].fall
    assert (fall.short_tokens, fall.long_tokens) == (2019.5, 20_019.5)
    assert fall.short_length == pytest.approx(2.3, abs=0.02)
    assert fall.long_length == pytest.approx(1.07, abs=0.01)
    assert prompts([*short, *({**each, "prompt_tokens": 20_000} for each in short)])["llama"].fall is None


def test_a_model_whose_evaluation_fails_is_recorded_and_left_out(make_store, make_request, monkeypatch):
    store, errors = make_store(), Isolation()
    store._errors = errors
    for name in "ab":
        store.take(make_request(model_name=name, prompt_tokens=5), 0.0)

    def costs(model_name, target):
        return None

    async def failing(label, rows, indices, cost_of):
        if rows.groups[indices[0]].key.model_name == "a":
            raise ZeroDivisionError
        return await bucket(label, rows, indices, cost_of)

    bucket = prompt_lengths._bucket
    monkeypatch.setattr(prompt_lengths, "_bucket", failing)
    found = asyncio.run(store.findings((30.0,), 0.0, costs))
    assert [each.model_name for each in found.prompts] == ["b"]
