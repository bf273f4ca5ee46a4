"""Compare a page of the exporter with the ground truth.

Ratios are compared after weighing each engine's by its own denominator, so that the same check holds for any
number of engines: the responses do not say which engine served them.
"""

from __future__ import annotations

from collections import defaultdict

from clients import Truth
from pytest import approx  # noqa: PT013 - the one name that is read like a word
from watch import LONG, Page, page_of

EXACT = 1e-9  # relative error of a division; the sums must be equal
SECONDS = 1e-6


def check_vllm(url: str, truth: Truth) -> None:
    """Compare vLLM's own counters with its responses: a precondition of all other comparisons."""
    page = page_of(url)
    prefix = "vllm:spec_decode_num"
    assert page.sum(f"{prefix}_drafts_total") == truth.drafts
    assert page.sum(f"{prefix}_draft_tokens_total") == truth.draft_tokens
    assert page.sum(f"{prefix}_accepted_tokens_total") == truth.accepted_tokens
    assert page.positions(f"{prefix}_accepted_tokens_per_pos_total") == truth.positions
    assert page.sum("vllm:generation_tokens_total") == truth.generation_tokens


def check_counters(page: Page, truth: Truth) -> None:
    """Compare the counters with the sums of the responses. They start at 0, so values are increases."""
    for name in ("drafts", "draft_tokens", "accepted_tokens", "generation_tokens"):
        assert page.sum(f"spec_decode_{name}_total") == getattr(truth, name), name
    assert page.sum("spec_decode_first_tokens_total") == truth.requests
    assert page.positions("spec_decode_position_accepted_tokens_total") == truth.positions
    assert page.sum("spec_decode_decode_seconds_total") == approx(truth.decode_seconds, rel=SECONDS)
    assert page.sum("spec_decode_poll_acceptance_ratio_count") == truth.draft_tokens
    assert page.sum("spec_decode_poll_acceptance_ratio_sum") == approx(truth.accepted_tokens, rel=EXACT)


def check_windows(page: Page, truth: Truth, before: Page | None = None) -> None:
    """Compare the long window, which has every response since ``before``, with the ratios of the sums."""
    assert page.sum("spec_decode_window_draft_tokens", window=LONG) == truth.draft_tokens
    assert page.sum("spec_decode_window_accepted_tokens", window=LONG) == truth.accepted_tokens
    assert page.sum("spec_decode_window_decode_seconds", window=LONG) == approx(
        truth.decode_seconds, rel=SECONDS
    )
    assert {sample.value for sample in page.find("spec_decode_consistent")} == {1}
    steps = page.sum("spec_decode_decode_steps_total")
    assert steps >= truth.drafts
    numerators = {
        ("spec_decode_draft_acceptance_ratio", "draft_tokens"): truth.accepted_tokens,
        ("spec_decode_acceptance_length_tokens", "drafts"): truth.drafts + truth.accepted_tokens,
        ("spec_decode_draft_length_tokens", "drafts"): truth.draft_tokens,
        ("spec_decode_coverage_ratio", "decode_steps"): truth.drafts,
        ("spec_decode_effective_tokens_per_step", "decode_steps"): truth.generation_tokens - truth.requests,
    }
    assert {key: weighed(page, before, *key) for key in numerators} == approx(numerators, rel=EXACT)
    assert weighed(page, before, "spec_decode_step_seconds", "decode_steps") == approx(
        truth.decode_seconds, rel=SECONDS
    )
    for position, accepted in enumerate(truth.positions):
        survived = weighed(
            page, before, "spec_decode_position_acceptance_ratio", "drafts", position=str(position)
        )
        assert survived == approx(accepted, rel=EXACT)


def weighed(page: Page, before: Page | None, ratio: str, denominator: str, **labels: str) -> float:
    """Turn every engine's ratio back into its numerator, and add these up.

    The window has everything, or everything since the page ``before``.
    """
    samples = page.find(ratio, window=LONG, **labels)
    assert samples, f"the exporter has no {ratio}{labels or ''}"
    pages = (page, 1), *(((before, -1),) if before else ())
    weights: dict[str, float] = defaultdict(float)
    for each, sign in pages:
        for total in each.find(f"spec_decode_{denominator}_total"):
            weights[total.labels["engine"]] += sign * total.value
    return sum(sample.value * weights[sample.labels["engine"]] for sample in samples)
