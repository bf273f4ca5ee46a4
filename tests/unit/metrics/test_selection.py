"""Selection of metrics: a profile, and groups or names on top of it."""

from __future__ import annotations

import pytest

from spec_decode_exporter.config.schema import Group, Metrics, Profile
from spec_decode_exporter.metrics.catalogue import CATALOGUE
from spec_decode_exporter.metrics.profiles import PROFILES
from spec_decode_exporter.metrics.selection import selected_metrics

WINDOWS = (30.0, 300.0)
STANDARD = PROFILES[Profile.STANDARD]
LABELS = {"target": "one", "model_name": "m", "engine": "0"}
SHORTEST, LONGEST = "spec_decode_generation_tokens_per_second", "spec_decode_acceptance_decay_ratio"


def of_group(group):
    return {metric.name for metric in CATALOGUE if metric.group is group}


def names(**settings):
    return selected_metrics(Metrics(**settings), WINDOWS).names


class TestNames:
    @pytest.mark.parametrize("group", Group)
    def test_lack_a_disabled_group(self, group):
        assert names(disable=(str(group),)) == STANDARD - of_group(group)

    @pytest.mark.parametrize("profile", Profile)
    def test_have_an_enabled_group(self, profile):
        assert names(profile=profile, enable=("distribution",)) >= of_group(Group.DISTRIBUTION)
