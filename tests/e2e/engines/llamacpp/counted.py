"""Compare a page of the exporter with what llama.cpp's responses and its own page say.

llama.cpp prints all but the positions with six digits: from a million on its page is rounded, and the sums of its
responses are not.
"""

from __future__ import annotations

import dataclasses

from clients import Truth
from process import Server
from pytest import approx  # noqa: PT013 - the one name that is read like a word
from watch import Page, Watch, page_of

DIGITS = 6


def printed(value: float) -> object:
    """Compare equal to a number that differs by the rounding of its last printed digit at most."""
    step = 10 ** max(0, len(f"{value:.0f}") - DIGITS)
    return approx(value, rel=0, abs=step / 2 if step > 1 else 0)


def completed(server: Server, truth: Truth) -> Truth:
    """Return the truth with what no response has and the server's page does: drafts, accepted tokens by position."""
    own = page_of(server.url)
    positions = (
        own.positions("llamacpp:spec_decode_num_accepted_tokens_per_pos_total") if truth.draft_tokens else ()
    )
    assert sum(positions) == truth.accepted_tokens
    drafts = int(own.sum("llamacpp:spec_decode_num_drafts_total"))
    return dataclasses.replace(truth, drafts=drafts, positions=positions)


def settled_counters(watching: Watch, truth: Truth) -> Page:
    """Compare the counters, which start at 0, and return the page: accepted tokens are exact, others as printed."""
    page, positions = watching.settled(), truth.positions
    assert page.sum("spec_decode_accepted_tokens_total") == truth.accepted_tokens
    accepted = page.positions("spec_decode_position_accepted_tokens_total")
    assert accepted[: len(positions)] == positions
    assert not any(accepted[len(positions) :])
    for name in ("drafts", "draft_tokens", "generation_tokens"):
        assert page.sum(f"spec_decode_{name}_total") == printed(getattr(truth, name)), name
    assert {sample.value for sample in page.find("spec_decode_consistent")} == {1}
    assert {sample.value for sample in page.find("spec_decode_engine_resets_total")} == {0}
    return page
