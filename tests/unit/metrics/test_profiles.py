"""Profiles: each is small enough, and ``standard`` is what shipped files read and what the exporter is for."""

from __future__ import annotations

import pytest

from docs.generate.series_counts import LABELS, engine_series, exporter_series, series, target_series
from spec_decode_exporter.config.schema import Metrics, Profile
from spec_decode_exporter.metrics.catalogue import CATALOGUE, NAMES
from spec_decode_exporter.metrics.metric import MetricKind
from spec_decode_exporter.metrics.profiles import (
    ESSENTIAL,
    LONGEST_WINDOW,
    PROFILES,
    SHORTEST_WINDOW,
    smallest_profile,
)
from spec_decode_exporter.metrics.selection import selected_metrics
from spec_decode_exporter.monitor.snapshot import Snapshot
from tests.unit.metrics.used_metrics import used

STANDARD, MINIMAL = PROFILES[Profile.STANDARD], PROFILES[Profile.MINIMAL]


class TestStandard:
    def test_has_what_a_shipped_file_reads(self):
        assert sorted(used().keys() - STANDARD) == []
        assert len(used()) > 80

    def test_has_what_the_exporter_is_for(self):
        assert sorted(ESSENTIAL - STANDARD) == []

    def test_has_nothing_else(self):
        assert sorted(STANDARD - used().keys() - ESSENTIAL) == []

    def test_has_every_window_that_they_read(self):
        exported = selected_metrics(Metrics(), (30.0, 300.0)).windows
        missing = {name: windows - {exported[name]} for name, windows in used().items() if name in exported}
        assert {name for name, windows in missing.items() if windows} == set()

    def test_has_no_window_that_none_of_them_reads(self):
        """A selector without a window, of a metric with some, reads whichever there are."""
        both = {
            metric.name
            for metric in CATALOGUE
            if "window" in metric.labels and metric.name in STANDARD - LONGEST_WINDOW - SHORTEST_WINDOW
        }
        assert {name for name in both if len(used().get(name, ())) == 1} == set()


class TestEveryProfile:
    def test_contains_the_one_before(self):
        assert MINIMAL < STANDARD < NAMES
        everything = selected_metrics(Metrics(profile=Profile.FULL), (30.0, 300.0))
        assert everything.names == NAMES
        assert everything.windows == {}

    def test_a_single_window_is_of_a_metric_with_windows_that_the_profile_has(self):
        single = LONGEST_WINDOW | SHORTEST_WINDOW
        assert not LONGEST_WINDOW & SHORTEST_WINDOW
        assert single <= STANDARD
        windowed = [metric for metric in CATALOGUE if metric.name in single]
        assert {metric.name for metric in windowed if "window" in metric.labels} == single
        # A histogram's values begin with suffix and bound, which the selection of a window does not expect.
        assert MetricKind.HISTOGRAM not in {metric.kind for metric in windowed}

    @pytest.mark.parametrize(
        ("name", "profile"),
        [
            ("spec_decode_verdict", Profile.MINIMAL),
            ("spec_decode_coverage_ratio", Profile.STANDARD),
            ("spec_decode_drafts_per_second", Profile.STANDARD),
            ("spec_decode_rejected_tokens_per_second", Profile.FULL),
        ],
    )
    def test_a_metric_begins_with_the_smallest(self, name, profile):
        assert smallest_profile(name) is profile


COUNTS = {
    Profile.MINIMAL: {4: 55, 8: 55},
    Profile.STANDARD: {4: 142, 8: 162},
    Profile.FULL: {4: 185, 8: 221},
}
"""Series of an engine by its draft positions: exact, so that a new metric is compared with the limit."""


class TestSeriesOfAnEngine:
    """With two windows, after hours of traffic: decision 18 has the limits, docs/reference/metrics.md the counts."""

    @pytest.mark.parametrize("profile", Profile)
    @pytest.mark.parametrize("tokens", [4, 8])
    def test_are_as_many_as_stated(self, profile, tokens):
        assert engine_series(profile, tokens) == COUNTS[profile][tokens]

    @pytest.mark.parametrize(("profile", "limit"), [(Profile.MINIMAL, 70), (Profile.STANDARD, 145)])
    def test_are_within_the_limit_with_four_positions(self, profile, limit):
        assert COUNTS[profile][4] <= limit

    @pytest.mark.parametrize("profile", Profile)
    def test_are_fewer_while_it_is_idle(self, findings_of, busy_sample, profile):
        busy = [busy_sample(n, 4) for n in range(310)]
        counts = [
            series(Snapshot([(LABELS, findings_of(samples))]), profile)
            for samples in (busy, [*busy, *[busy[-1]] * 310])
        ]
        assert counts[1] < counts[0] <= COUNTS[profile][4]


def test_a_target_and_the_exporter_have_a_few_series_of_their_own():
    counts = {profile: (target_series(profile), exporter_series(profile)) for profile in Profile}
    assert counts == {Profile.MINIMAL: (15, 7), Profile.STANDARD: (16, 9), Profile.FULL: (16, 9)}
