"""Metric tables: names, labels and kinds are the contract with dashboards, alerts and users."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.config.labels import RESERVED_LABELS
from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.figures.figure import Stability
from spec_decode_exporter.figures.quantiles import QUANTILE_LABEL
from spec_decode_exporter.metrics.catalogue import CATALOGUE, NAMES
from spec_decode_exporter.metrics.engine_metrics import ENGINE_LABELS, ENGINE_METRICS
from spec_decode_exporter.metrics.metric import MetricKind
from spec_decode_exporter.metrics.own_metrics import TARGET_METRICS
from spec_decode_exporter.metrics.profiles import LONGEST_WINDOW, SHORTEST_WINDOW, smallest_profile
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.monitor.target_status import TargetStatus, status_of
from spec_decode_exporter.scrape.page.sample import PageReading
from spec_decode_exporter.scrape.poll.poll_record import PollRecord
from spec_decode_exporter.scrape.poll_errors import PollError, StatusError
from tests.unit.metrics.written_page import EVERYTHING, families_of

GOLDEN = Path(__file__).parent / "golden" / "contract.txt"
"""Every metric by group: kind, name, labels, smallest profile, and the only window that it has there."""


def contract():
    """Return the text of the golden file for the present tables."""

    def line(metric):
        windows = (
            "longest"
            if metric.name in LONGEST_WINDOW
            else "shortest"
            if metric.name in SHORTEST_WINDOW
            else ""
        )
        return " ".join(
            filter(
                None,
                [metric.kind, metric.name, *metric.labels, f"({smallest_profile(metric.name)})", windows],
            )
        )

    sections = []
    for group in Group:
        metrics = sorted((metric for metric in CATALOGUE if metric.group is group), key=lambda one: one.name)
        sections.append("\n".join([f"{group}:", *map(line, metrics)]) + "\n")
    return "\n".join(sections)


def violations(holds, metrics=CATALOGUE):
    """Return the names of the metrics for which a check does not hold."""
    return [metric.name for metric in metrics if not holds(metric)]


def test_every_metric_has_its_kind_labels_and_profile():
    """A changed line changes for every user: ``UPDATE_GOLDEN=1 pytest tests/unit/metrics``, CHANGELOG.md."""
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(contract(), encoding="utf-8")
    assert contract() == GOLDEN.read_text(encoding="utf-8")


def test_no_name_is_there_twice():
    assert len(NAMES) == len(CATALOGUE)


def test_every_label_is_reserved_so_that_no_target_can_carry_it():
    assert violations(lambda metric: set(metric.labels) <= RESERVED_LABELS) == []
    assert set(ENGINE_LABELS) <= RESERVED_LABELS


def test_no_metric_has_a_label_twice():
    def carried(metric):
        return ENGINE_LABELS if metric in ENGINE_METRICS else ("target",) if metric in TARGET_METRICS else ()

    assert violations(lambda metric: not set(metric.labels) & set(carried(metric))) == []
    assert violations(lambda metric: len(set(metric.labels)) == len(metric.labels)) == []


def test_quantiles_have_one_label_and_say_so_in_their_names():
    """Other gauges have no ``quantile``, which the formats reserve for summaries: decision 17."""
    assert (
        violations(
            lambda metric: (
                (QUANTILE_LABEL in metric.labels)
                is (metric.kind is MetricKind.QUANTILES)
                is ("quantile" in metric.name.split("_"))
            )
        )
        == []
    )


OTHER_UNITS = r"milliseconds|_ms\b|minutes|hours|percent|kilobytes|megabytes|_kb\b|_mb\b|perc\b"


class TestNames:
    """The checks of ``promtool check metrics`` on a name, and a few more."""

    def test_have_the_prefix_and_are_in_snake_case_without_a_colon(self):
        assert (
            violations(lambda metric: re.fullmatch(r"spec_decode_[a-z0-9]+(_[a-z0-9]+)*", metric.name)) == []
        )

    def test_have_the_prefix_of_the_exporter_just_in_its_own_group(self):
        assert (
            violations(
                lambda metric: (
                    metric.name.startswith("spec_decode_exporter_") is (metric.group is Group.EXPORTER)
                )
            )
            == []
        )

    def test_end_in_total_just_for_counters(self):
        assert (
            violations(lambda metric: metric.name.endswith("_total") is (metric.kind is MetricKind.COUNTER))
            == []
        )

    def test_leave_the_suffixes_of_histograms_to_them(self):
        assert violations(lambda metric: not re.search(r"_(bucket|sum|count|created)$", metric.name)) == []

    def test_do_not_contain_their_type(self):
        types = {"gauge", "counter", "histogram", "summary"}
        assert violations(lambda metric: not set(metric.name.split("_")) & types) == []

    def test_are_in_base_units(self):
        assert violations(lambda metric: not re.search(OTHER_UNITS, metric.name)) == []


class TestHelp:
    def test_is_one_sentence_on_one_line(self):
        assert violations(lambda metric: metric.help.endswith(".")) == []
        assert violations(lambda metric: metric.help[0].isupper()) == []
        assert violations(lambda metric: "\n" not in metric.help) == []
        assert violations(lambda metric: "  " not in metric.help) == []
        assert violations(lambda metric: not re.search(r"\. [A-Z]", metric.help)) == []

    def test_has_at_most_120_characters(self):
        assert violations(lambda metric: len(metric.help) <= 120) == []

    def test_says_over_which_window(self):
        windowed = [metric for metric in CATALOGUE if "window" in metric.labels]
        assert len(windowed) > 40
        assert violations(lambda metric: "window" in metric.help, windowed) == []

    def test_leaves_the_source_series_to_the_documentation(self):
        assert violations(lambda metric: not re.search(r"(vllm|sglang):", metric.help)) == []


def test_every_metric_of_an_engine_names_the_series_that_it_comes_from():
    own = {
        *("window_seconds", "consistent", "engine_resets_total", "engine_info"),
        "reference_acceptance_ratio",
    }
    named = [metric for metric in ENGINE_METRICS if metric.name.removeprefix("spec_decode_") not in own]
    assert len(named) > 50
    series = re.compile(r"(vllm|sglang):[a-z0-9_]+")
    assert violations(lambda metric: any(series.fullmatch(source) for source in metric.source), named) == []


def test_no_metric_is_experimental():
    assert {metric.stability for metric in CATALOGUE} == {Stability.STABLE}


LABELS = {"target": "one", "model_name": "m", "engine": "0"}


def samples_of(findings, selection=EVERYTHING):
    families = families_of(Snapshot([(LABELS, findings)]), selection)
    return [sample for family in families for sample in family.samples]


@pytest.fixture(name="scheduled")
def scheduled_fixture(busy):
    """Snapshot of the busy engine with a schedule of draft tokens, which adds a series."""
    return replace(busy, speculation=replace(busy.speculation, schedule=BatchSchedule((1, 64), (8, 4))))


def test_no_series_is_there_twice(scheduled):
    samples = samples_of(scheduled)
    assert len({(one.name, *one.labels.items()) for one in samples}) == len(samples)


def test_every_metric_of_an_engine_but_the_engine_s_own_report_has_values(scheduled):
    found = {re.sub(r"_(bucket|sum|count)$", "", one.name) for one in samples_of(scheduled)}
    reported = {name for name in NAMES if "engine_reported" in name}
    assert found == {metric.name for metric in ENGINE_METRICS} - reported


class TestCountersAreNeverAbsent:
    @pytest.fixture(name="fresh")
    def fresh_fixture(self, findings_of, make_sample):
        """Snapshot of an engine after a single page without speculation."""
        return {
            (one.name, *one.labels.values()): one.value for one in samples_of(findings_of([make_sample()]))
        }

    def test_a_target_never_polled_shows_every_reason_for_failing(self):
        metric = next(one for one in TARGET_METRICS if one.name.endswith("poll_failures_total"))
        reasons = ("refused", "timeout", "status", "too_large", "malformed", "tls", "dns")
        assert list(metric.read(TargetStatus())) == [((reason,), 0) for reason in reasons]

    @pytest.mark.parametrize(
        ("error", "shown"),
        [
            (StatusError(401), [(("status 401",), 1.0)]),
            (StatusError(302, "login"), [(("status 302",), 1.0)]),
            (PollError("dns", "no such name"), [(("dns",), 1.0)]),
            (None, [(("",), None)]),
        ],
    )
    def test_a_target_shows_why_its_newest_poll_failed_as_long_as_it_does(self, error, shown):
        metric = next(one for one in TARGET_METRICS if one.name.endswith("target_error"))
        record = PollRecord()
        record.failed("timeout", "no answer")
        if error is None:
            record.succeeded(0.1, 10, 1, 0.0)
        else:
            record.failed(error.reason, str(error))
        reading = PageReading("", "", {})
        engines = SimpleNamespace(not_monitored=0, target_labels={})
        target = Target("http://a:1/metrics", "a")
        assert list(metric.read(status_of(target, record, reading, engines, interval=1.0, names=()))) == shown


class TestEngineReported:
    def test_is_absent_for_an_engine_that_is_gone(self, findings_of, make_sample):
        findings = findings_of([make_sample(reported_acceptance_ratio=0.7)], later=3000.0)
        assert not any("engine_reported" in one.name for one in samples_of(findings))
