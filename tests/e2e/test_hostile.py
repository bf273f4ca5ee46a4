"""The installed program beside hostile sources and clients: memory, answers, and the polls of good targets.

Times are not compared: a busy machine must not fail a test.
"""

import pytest

from tests.robustness.attacks import trials
from tests.robustness.scene import SIDECAR_MEMORY, watched

SECONDS = 4.0
POLLS = 3
"""Of each good target during an attack: nothing stands still."""


@pytest.mark.parametrize("trial", trials(), ids=lambda trial: f"{trial.row}-{trial.case}")
def test_a_hostile_source_costs_bounded_memory_and_leaves_good_targets_polled(trial, tmp_path):
    measured = watched(trial.attack(), tmp_path, SECONDS, POLLS)
    assert measured.healthy_failures == 0
    # Hostile clients have the address of the scrapes here, and share their permits: a slow machine may reject some.
    assert measured.scrapes > 0
    assert measured.resident <= SIDECAR_MEMORY, f"{measured.resident / 2**20:.0f} MiB"
    assert measured.polls >= POLLS
