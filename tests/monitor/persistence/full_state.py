"""Learned state of an engine in which nothing is absent: an n-gram drafter after two days, during its drops."""

from __future__ import annotations

from functools import cache
from random import Random

from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.monitor.drops.drop_detector import DecodeSteps, DropDetector

WALL = 1_790_000_000.0
STEPS_PER_SECOND = 997
POSITIONS = 8


class _Engine:
    def __init__(self):
        self.detector = DropDetector(DropPolicy())
        self._random = Random(1)
        self._seconds = 0.0

    def run(self, polls, seconds, coverage, acceptance):
        for _ in range(polls):
            steps = round(seconds * STEPS_PER_SECOND * self._random.uniform(0.9, 1.1))
            drafts = round(steps * coverage * self._random.uniform(0.9, 1.1))
            positions = [round(drafts * acceptance**place) for place in range(1, POSITIONS + 1)]
            begin, end = self._seconds, self._seconds + seconds
            self.detector.observe(
                begin,
                end,
                drafts,
                sum(positions),
                positions,
                wall=WALL + end,
                steps=DecodeSteps(steps, searches=True),
            )
            self._seconds = end


@cache
def full_state():
    engine = _Engine()
    engine.run(300, 600.0, 0.6, 0.8)
    engine.run(1500, 5.0, 0.6, 0.8)
    engine.run(60, 1.0, 0.6, 0.5)
    engine.run(60, 1.0, 0.1, 0.5)
    dropped = engine.detector.status().dropped
    assert sum(dropped.values()) >= 2
    return {"tokens": POSITIONS, "method": "ngram", "draft_model": "", "drops": engine.detector.saved()}
