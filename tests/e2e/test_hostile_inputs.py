"""The installed program with one hostile source next to nine good targets: memory, answers and polls.

Times are measured by ``python -m benchmarks.hostile``: here a busy machine must not fail a test.
"""

from __future__ import annotations

from itertools import groupby

import pytest

from tests.robustness.hostile.attacks import trials
from tests.robustness.hostile.scene import SIDECAR_MEMORY, watched

SECONDS = 4.0
POLLS = 3
"""Of each good target during the attack: nothing stands still."""

WORST = [next(cases) for _, cases in groupby(trials(), key=lambda trial: trial.row)]
COMBINED = [trial for trial in trials() if trial.row == "several inputs"][1:]


@pytest.mark.parametrize("trial", [*WORST, *COMBINED], ids=lambda trial: f"{trial.row}-{trial.case}")
def test_a_hostile_source_costs_bounded_memory_and_leaves_good_targets_polled(trial, tmp_path):
    measured = watched(trial.attack(), tmp_path, SECONDS, POLLS)
    assert measured.healthy_failures == 0
    # Hostile clients have the address of the scrapes here, and share their permits: a slow machine may reject some.
    assert measured.scrapes > 0
    assert measured.resident <= SIDECAR_MEMORY, f"{measured.resident / 2**20:.0f} MiB"
    assert measured.polls >= POLLS
