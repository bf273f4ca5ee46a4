"""Story of decisions: an engine's traffic changes, its border is near, or it alternates, with a moved clock."""

from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import pytest

from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import PAYING, Action
from spec_decode_exporter.config.comparison_settings import CostSettings
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from tests.conftest import make_sample
from tests.fakes.engines import WALL

TOKENS, RUNNING, EVERY = 4, 8, 3
"""K, requests that run, and polls between two evaluations that no change makes urgent."""
COUNTS = (
    *("drafts", "draft_tokens", "accepted_tokens", "generation_tokens"),
    *("first_tokens", "decode_steps", "decode_nanoseconds"),
)


@dataclass
class Traffic:
    """Requests of 150 tokens in the mean, each with an acceptance of its own; 25 steps a second."""

    random: Random = field(default_factory=lambda: Random(2))
    requests: list = field(default_factory=list)
    counts: dict = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    positions: list = field(default_factory=lambda: [0] * TOKENS)

    def second(self, acceptance, running=RUNNING):
        """Serve for a second; return the sample at its end."""
        random, counts = self.random, self.counts
        self.requests = self.requests[:running]
        while len(self.requests) < running:
            self.requests.append([random.expovariate(1 / 150), random.gauss(acceptance, 0.05)])
            counts["first_tokens"] += 1
            counts["generation_tokens"] += 1
        for request in self.requests:
            for _ in range(25):
                accepted = 0
                while accepted < TOKENS and random.random() < request[1]:
                    self.positions[accepted] += 1
                    accepted += 1
                counts["accepted_tokens"] += accepted
                counts["generation_tokens"] += 1 + accepted
                request[0] -= 1 + accepted
        steps = 25 * len(self.requests)
        counts["decode_steps"] += steps
        counts["drafts"] += steps
        counts["draft_tokens"] += TOKENS * steps
        counts["decode_nanoseconds"] += len(self.requests) * 10**9
        self.requests = [request for request in self.requests if request[0] > 0]
        load = float(len(self.requests))
        return make_sample(**counts, positions=self.positions, running_requests=load, created=WALL)


def live(cost, seconds, acceptance, **more):
    """Return the snapshots by second; ``acceptance`` and the numbers of ``more`` are functions of the second."""
    costs = CostSettings(draft_cost_ratio=cost, running_requests=8)
    monitor = EngineMonitor((30.0, 300.0), Assumptions(Speculation("eagle3", tokens=TOKENS), costs))
    traffic, shown = Traffic(), {}
    for second in range(1, seconds + 1):
        sample = traffic.second(acceptance(second), **{name: value(second) for name, value in more.items()})
        monitor.observe(sample, float(second), WALL + second, 1.0, 10.0)
        if monitor.is_urgent or second % EVERY == 0:
            monitor.evaluate()
        shown[second] = monitor.snapshot
    return shown


def changes(shown):
    """Number of changes of verdict, advice or tokens, and of the setting to copy, from second 400 on."""
    evaluations = [snapshot.evaluation for second, snapshot in shown.items() if second >= 400]
    decisions = [each.decision for each in evaluations]
    copied = [(each.setting.tokens, each.setting.schedule) for each in evaluations]
    return tuple(sum(a != b for a, b in pairwise(each)) for each in (decisions, copied))


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
def test_words_and_setting_stay(cost, seconds, acceptance, more, most):
    found = changes(live(cost, seconds, acceptance, **more))
    assert all(number <= allowed for number, allowed in zip(found, most, strict=True)), found


def test_a_collapse_is_told_in_seconds_and_a_recovery_after_minutes():
    """A second collapse, soon after the first one, is alternating traffic: advice does not follow it."""
    spans = (600, 900), (1020, 1080)
    shown = live(0.1, 1500, lambda t: 0.1 if any(a < t <= b for a, b in spans) else 0.75)
    pays = {second: snapshot.evaluation.verdict in PAYING for second, snapshot in shown.items()}
    soon = {shown[second].evaluation.action for second in range(601, 671)}
    assert not all(pays[second] for second in range(601, 611))
    assert soon & {Action.DISABLE, Action.DECREASE}
    assert any(pays[second] for second in range(901, 1261))
    assert not any(pays[second] for second in range(610, 900))
    assert pays[1500]
    assert changes(shown)[0] <= 8
    for snapshot in (shown[second] for second in range(610, 900)):
        if snapshot.drops.live:
            assert "sudden_drop" in {finding.name for finding in snapshot.findings}
