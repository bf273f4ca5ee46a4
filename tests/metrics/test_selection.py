"""Selection of metrics: a profile, and groups or names on top of it."""

from __future__ import annotations

import pytest

from spec_decode_exporter.config.schema import Config, Group, Metrics, Profile
from spec_decode_exporter.metrics.catalogue import CATALOGUE, NAMES
from spec_decode_exporter.metrics.profiles import PROFILES
from spec_decode_exporter.metrics.selection import selected_metrics
from spec_decode_exporter.monitor.snapshot import Snapshot
from tests.metrics.written_page import families_of

WINDOWS = (30.0, 300.0)
STANDARD = PROFILES[Profile.STANDARD]
LABELS = {"target": "one", "model_name": "m", "engine": "0"}
SHORTEST, LONGEST = "spec_decode_generation_tokens_per_second", "spec_decode_acceptance_decay_ratio"


def of_group(group):
    return {metric.name for metric in CATALOGUE if metric.group is group}


def names(**settings):
    return selected_metrics(Metrics(**settings), WINDOWS).names


def windows_of(engine, name, windows=WINDOWS, **settings):
    """Return the windows of a metric on the page of an engine."""
    families = families_of(Snapshot([(LABELS, engine)]), selected_metrics(Metrics(**settings), windows))
    return [one.labels["window"] for family in families if family.name == name for one in family.samples]


class TestNames:
    def test_are_those_of_the_standard_profile_by_default(self):
        assert selected_metrics(Config().metrics, WINDOWS).names == STANDARD

    @pytest.mark.parametrize("profile", [Profile.MINIMAL, Profile.STANDARD])
    def test_are_those_of_the_profile(self, profile):
        assert names(profile=profile) == PROFILES[profile]

    def test_are_all_of_the_full_profile(self):
        assert names(profile="full") == NAMES

    @pytest.mark.parametrize("group", Group)
    def test_lack_a_disabled_group(self, group):
        assert names(disable=(str(group),)) == STANDARD - of_group(group)

    @pytest.mark.parametrize("profile", Profile)
    def test_have_an_enabled_group(self, profile):
        assert names(profile=profile, enable=("distribution",)) >= of_group(Group.DISTRIBUTION)

    def test_have_or_lack_a_single_metric(self):
        found = names(
            enable=("spec_decode_accepted_length_ratio",), disable=("spec_decode_poll_acceptance_ratio",)
        )
        assert found ^ STANDARD == {"spec_decode_accepted_length_ratio", "spec_decode_poll_acceptance_ratio"}

    def test_follow_a_name_before_its_group(self):
        kept = names(enable=("spec_decode_drafts_total",), disable=("counters",))
        assert kept & of_group(Group.COUNTERS) == {"spec_decode_drafts_total"}
        dropped = names(enable=("distribution",), disable=("spec_decode_accepted_length_ratio",))
        assert "spec_decode_accepted_length_ratio" not in dropped
        assert "spec_decode_interval_acceptance_quantile_ratio" in dropped

    def test_are_alone_on_the_page(self, busy):
        selection = selected_metrics(Metrics(disable=("latency",)), WINDOWS)
        found = {family.name for family in families_of(Snapshot([(LABELS, busy)]), selection)}
        assert "spec_decode_drafts" in found
        assert not found & of_group(Group.LATENCY)


class TestWindows:
    @pytest.mark.parametrize(("name", "window"), [(LONGEST, "5m"), (SHORTEST, "30s")])
    def test_are_one_where_nothing_shipped_reads_another(self, busy, name, window):
        assert windows_of(busy, name) == [window]

    @pytest.mark.parametrize("name", [LONGEST, SHORTEST])
    @pytest.mark.parametrize("settings", [{"profile": "full"}, {"enable": ("acceptance", SHORTEST)}])
    def test_are_all_in_the_full_profile_or_if_enabled(self, busy, name, settings):
        assert windows_of(busy, name, **settings) == ["30s", "5m"]

    def test_are_those_of_the_configuration(self, findings_of, busy_sample):
        windows = (10.0, 60.0, 120.0)
        engine = findings_of([busy_sample(n) for n in range(150)], windows)
        assert windows_of(engine, LONGEST, windows) == ["2m"]
        assert windows_of(engine, SHORTEST, windows) == ["10s"]
        assert windows_of(engine, "spec_decode_draft_acceptance_ratio", windows) == ["10s", "1m", "2m"]

    def test_can_be_a_single_one(self, findings_of, busy_sample):
        engine = findings_of([busy_sample(n) for n in range(100)], (60.0,))
        assert windows_of(engine, LONGEST, (60.0,)) == windows_of(engine, SHORTEST, (60.0,)) == ["1m"]
