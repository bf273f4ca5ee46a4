"""Story of decisions: an engine's traffic changes, its border is near, or it alternates, with a moved clock."""

from itertools import pairwise
from random import Random

import pytest

from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import PAYING, Action
from spec_decode_exporter.config.comparison_settings import CostSettings
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.views.verdict_text import verdict_text
from tests.fakes.engines import WALL

TOKENS, RUNNING, EVERY = 4, 8, 3
"""K, requests that run, and polls between two evaluations that no change makes urgent."""
COUNTS = (
    *("drafts", "draft_tokens", "accepted_tokens", "generation_tokens"),
    *("first_tokens", "decode_steps", "decode_nanoseconds"),
)


class Engine:
    """Requests of 150 tokens in the mean, each with an acceptance of its own; 25 steps a second."""

    def __init__(self, cost):
        speculation = Speculation("eagle3", tokens=TOKENS)
        self.monitor = EngineMonitor(
            (30.0, 300.0), Assumptions(speculation, CostSettings(draft_cost_ratio=cost, running_requests=8))
        )
        self.random, self.requests = Random(2), []
        self.shown = {}
        self.restart()

    def restart(self, *_):
        self.counts, self.positions = dict.fromkeys(COUNTS, 0), [0] * TOKENS
        self.created = WALL + len(self.shown)

    def second(self, acceptance, running=RUNNING, *, drafts=True):
        random, counts = self.random, self.counts
        self.requests = self.requests[:running]
        while len(self.requests) < running:
            self.requests.append([random.expovariate(1 / 150), random.gauss(acceptance, 0.05)])
            counts["first_tokens"] += 1
            counts["generation_tokens"] += 1
        for request in self.requests:
            for _ in range(25):
                accepted = 0
                while drafts and accepted < TOKENS and random.random() < request[1]:
                    self.positions[accepted] += 1
                    accepted += 1
                counts["accepted_tokens"] += accepted
                counts["generation_tokens"] += 1 + accepted
                request[0] -= 1 + accepted
        steps = 25 * len(self.requests)
        counts["decode_steps"] += steps
        counts["drafts"] += steps * drafts
        counts["draft_tokens"] += TOKENS * steps * drafts
        counts["decode_nanoseconds"] += len(self.requests) * 10**9
        self.requests = [request for request in self.requests if request[0] > 0]

    def live(self, make_sample, seconds, acceptance, *, at=None, **more):
        """Live for some seconds; ``acceptance`` and the numbers of ``more`` are functions of the second."""
        for second in range(1, seconds + 1):
            if at and second in at:
                at[second](self)
            self.second(acceptance(second), **{name: value(second) for name, value in more.items()})
            sample = make_sample(
                **self.counts,
                positions=tuple(self.positions),
                running_requests=float(len(self.requests)),
                created=self.created,
            )
            self.monitor.observe(sample, float(second), WALL + second, 1.0, 10.0)
            if self.monitor.is_urgent or second % EVERY == 0:
                self.monitor.evaluate()
            self.shown[second] = self.monitor.snapshot
        return self

    def decisions(self, first=400):
        return [snapshot.evaluation.decision for second, snapshot in self.shown.items() if second >= first]

    def changes(self, first=400):
        """Number of changes of verdict, advice or tokens, and of the setting to copy."""
        settings = [snapshot.evaluation.setting for second, snapshot in self.shown.items() if second >= first]
        copied = [(each.tokens, each.schedule) for each in settings]
        return tuple(sum(a != b for a, b in pairwise(each)) for each in (self.decisions(first), copied))

    def delay(self, since, wanted):
        """Seconds from a moment to the first snapshot that is wanted."""
        return next(
            second - since for second, shown in self.shown.items() if second > since and wanted(shown)
        )


def pays(snapshot):
    return snapshot.evaluation.verdict in PAYING


def advises(*actions):
    return lambda snapshot: snapshot.evaluation.action in actions


STEADY_WORDS = {
    "near the border": (0.33, 1000, lambda _: 0.62, {}, (1, 1)),
    "alternating minutes": (0.1, 1000, lambda t: 0.8 if t // 60 % 2 else 0.55, {}, (1, 1)),
    "busy and idle minutes": (0.1, 1000, lambda _: 0.75, {"running": lambda t: 8 if t // 60 % 2 else 0}, (1, 1)),
    "bursts": (0.1, 1000, lambda _: 0.75, {"running": lambda t: 16 if t % 40 < 8 else 2}, (1, 1)),
    "a slow drift from very well to slower": (0.2, 1800, lambda t: 0.8 - t / 6000, {"running": lambda _: 4}, (4, 3)),
}  # fmt: skip
"""Cost, seconds, acceptance by the second, running requests, and the most changes of decision and setting."""


@pytest.mark.parametrize(
    ("cost", "seconds", "acceptance", "more", "most"), STEADY_WORDS.values(), ids=STEADY_WORDS
)
def test_words_and_setting_stay(make_sample, cost, seconds, acceptance, more, most):
    changes = Engine(cost).live(make_sample, seconds, acceptance, **more).changes()
    assert all(number <= allowed for number, allowed in zip(changes, most, strict=True)), changes


def test_a_collapse_is_told_in_seconds_and_a_recovery_after_minutes(make_sample):
    """A second collapse, soon after the first one, is alternating traffic: advice does not follow it."""
    spans = (600, 900), (1020, 1080)
    story = Engine(0.1).live(make_sample, 1500, lambda t: 0.1 if any(a < t <= b for a, b in spans) else 0.75)
    assert story.delay(600, lambda each: not pays(each)) <= 10
    assert story.delay(600, advises(Action.DISABLE, Action.DECREASE)) <= 70
    assert story.delay(900, pays) <= 360
    assert not any(map(pays, (story.shown[each] for each in range(610, 900))))
    assert pays(story.shown[1500])
    assert story.changes()[0] <= 8
    for snapshot in (story.shown[second] for second in range(610, 900)):
        if snapshot.drops.live:
            assert not verdict_text(snapshot).startswith("Speculation pays")
            assert "sudden_drop" in {finding.name for finding in snapshot.findings}
