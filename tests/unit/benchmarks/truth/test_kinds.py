"""Traffic that changes: its counters agree with each other, and its truth follows what changes."""

import pytest

from benchmarks.truth.cells import cells
from benchmarks.truth.kinds import KINDS, ChangingCell

CELL = next(cells(1, 1))


@pytest.mark.parametrize("kind", KINDS)
def test_its_counters_agree(kind):
    pages = [counts for counts, _ in ChangingCell(CELL, kind).traffic(0).seconds(12)]
    assert len(pages) == 12
    last = pages[-1]
    assert sum(last.positions) == last.accepted_tokens <= last.draft_tokens
    assert last.drafts <= last.decode_steps
    assert last.generation_tokens - last.first_tokens <= last.decode_steps + last.accepted_tokens
    assert last.prefix_cache_hits <= last.prefix_cache_queries


def test_without_drafts_a_step_gives_one_token():
    *_, (last, _) = ChangingCell(CELL, "prompts").traffic(1, drafts=False).seconds(12)
    assert not last.drafts
    assert last.generation_tokens - last.first_tokens == last.decode_steps > 0


def test_the_truth_falls_with_the_acceptance():
    truths = [truth for _, truth in ChangingCell(CELL, "falls").traffic(0).seconds(300)]
    assert truths[-1].since(truths[-5]) < 0.97 * truths[20].since(truths[10])
