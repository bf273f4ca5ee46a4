from __future__ import annotations

import pytest

from spec_decode_exporter.views.trace import TRACE_PIECES, acceptance_trace
from spec_decode_exporter.window.engine_history import EngineHistory


def history(make_sample, polls, *, accepted=1, interval=1.0, skipped=range(0)):
    """Watch an engine that drafts two tokens a second, of which ``accepted`` are, but for ``skipped`` polls."""
    engine = EngineHistory(300.0)
    for poll in range(polls + 1):
        if poll not in skipped:
            sample = make_sample(
                drafts=poll, draft_tokens=2 * poll, accepted=accepted * poll, positions=(accepted * poll,)
            )
            engine.observe(sample, 1000.0 + poll * interval, 5000.0 + poll * interval, interval)
    return engine


def test_five_minutes_are_sixty_pieces_and_the_one_that_begins(make_sample):
    trace = acceptance_trace(history(make_sample, 400).window(300.0), 1400.0)
    assert trace.seconds == 300
    assert len(trace.pieces) == TRACE_PIECES + 1
    known = [piece for piece in trace.pieces if piece.acceptance_ratio is not None]
    assert {piece.acceptance_ratio for piece in known} == {0.5}
    assert len(known) == 60
    ages = [piece.age for piece in trace.pieces]
    assert ages == sorted(ages, reverse=True)


def test_pieces_without_polls_are_unknown(make_sample):
    trace = acceptance_trace(history(make_sample, 400, skipped=range(300, 330)).window(300.0), 1400.0)
    unknown = [piece.age for piece in trace.pieces if piece.acceptance_ratio is None and piece.age > 1]
    assert unknown == pytest.approx([97.5, 92.5, 87.5, 82.5, 77.5, 72.5])
