"""Metric table: names, labels and kinds are the contract with dashboards, alerts and users."""

import re
from dataclasses import replace
from math import inf

import pytest

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.config.types import RESERVED_LABELS
from spec_decode_exporter.costs.baseline import COMPARED, BaselineSummary
from spec_decode_exporter.figures.quantile import QUANTILE_LABEL
from spec_decode_exporter.metrics.subject import ARM, ENGINE, TARGET
from spec_decode_exporter.metrics.table import METRICS
from spec_decode_exporter.monitor.snapshot import Snapshot, TargetStatus
from spec_decode_exporter.scrape.errors import PollError, StatusError
from spec_decode_exporter.scrape.poll_record import PollRecord
from spec_decode_exporter.scrape.sample import Buckets
from tests.every import every
from tests.fakes.golden import is_golden
from tests.paths import DATA
from tests.unit.metrics.written_page import families_of

ONE_WINDOW = {"longest": "longest", "shortest": "shortest"}
LABELS = {"target": "one", "model_name": "m", "engine": "0"}
BEFORE = dict.fromkeys(COMPARED, Buckets((0.1, 1.0, inf), (0, 999, 999)))
BASELINE = BaselineSummary(0.1, None, histograms=BEFORE)


def line_of(metric):
    """Return kind, name, labels, smallest profile, and the only window that it has below ``full``."""
    carried = () if metric.subject in {ENGINE, ARM, TARGET} else metric.subject.labels
    window = ONE_WINDOW.get(metric.reduced or metric.windows, "")
    parts = [metric.kind, metric.name, *carried, *metric.label_names, f"({metric.profile})", window]
    return " ".join(filter(None, parts))


def test_every_metric_has_its_kind_labels_and_profile():
    """A changed line changes for every user: ``make generate``, and a file in ``docs/changes/``."""
    sections = []
    for group in Group:
        metrics = sorted((metric for metric in METRICS if metric.group is group), key=lambda one: one.name)
        sections.append("\n".join([f"{group}:", *map(line_of, metrics)]) + "\n")
    is_golden(DATA / "metrics" / "contract.txt", "\n".join(sections))
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def is_reserved_once(metric):
    """Labels are reserved, so targets cannot have them, and each occurs once."""
    labels = (*metric.subject.labels, *metric.label_names)
    return set(labels) <= RESERVED_LABELS and len(set(labels)) == len(labels)


def has_the_label_of_quantiles_if_named_so(metric):
    """Other gauges have no ``quantile``, which the formats reserve for summaries: decision 17."""
    return (QUANTILE_LABEL in metric.labels) is ("quantile" in metric.name.split("_"))


OTHER_UNITS = r"milliseconds|_ms\b|minutes|hours|percent|kilobytes|megabytes|_kb\b|_mb\b|perc\b"
TYPES = {"gauge", "counter", "histogram", "summary"}
CHECKS = {
    # The checks of ``promtool check metrics``, and a few more.
    "prefix, snake case": lambda its: re.fullmatch(r"spec_decode_[a-z0-9]+(_[a-z0-9]+)*", its.name),
    "exporter's prefix": lambda its: (
        its.name.startswith("spec_decode_exporter_") is (its.group is Group.EXPORTER)
    ),
    "_total of counters": lambda its: its.name.endswith("_total") is (its.kind == "counter"),
    "suffixes of histograms": lambda its: not re.search(r"_(bucket|sum|count|created)$", its.name),
    "type": lambda its: not set(its.name.split("_")) & TYPES,
    "base unit": lambda its: not re.search(OTHER_UNITS, its.name),
    "labels": is_reserved_once,
    "quantiles": has_the_label_of_quantiles_if_named_so,
    "one sentence": lambda its: re.fullmatch(r"[A-Z](?!.*(\. [A-Z]|  )).*\.", its.help),
    "at most 120 characters": lambda its: len(its.help) <= 120,
    "over which window": lambda its: "window" not in its.label_names or "window" in its.help,
    "no source": lambda its: not re.search(r"(vllm|sglang):", its.help),
}


@every(CHECKS)
def test_every_name_and_help_follows_the_rules(check):
    assert [metric.name for metric in METRICS if not CHECKS[check](metric)] == []


def test_every_metric_of_an_engine_but_its_own_report_has_values_and_no_series_is_there_twice(busy):
    # A schedule and a baseline of its latencies add series.
    known = replace(busy.evaluation.known, latency_baseline=BASELINE, baseline=BASELINE)
    schedule = replace(known.speculation, schedule=BatchSchedule((1, 64), (8, 4)))
    evaluation = Evaluation(
        [its.window for its in busy.evaluation.windows],
        replace(known, speculation=schedule),
        busy.evaluation.latencies,
    )
    families = families_of(Snapshot([(LABELS, replace(busy, evaluation=evaluation))]))
    samples = [sample for family in families for sample in family.samples]
    found = {re.sub(r"_(bucket|sum|count)$", "", one.name) for one in samples}
    reported = {name for name in {metric.name for metric in METRICS} if "engine_reported" in name}
    assert found == {metric.name for metric in METRICS if metric.subject is ENGINE} - reported
    assert len({(one.name, *one.labels.items()) for one in samples}) == len(samples)


def test_a_counter_is_0_after_a_single_page_without_speculation(findings_of, make_sample):
    families = families_of(Snapshot([(LABELS, findings_of([make_sample()]))]))
    fresh = {(one.name, *one.labels.values()): one.value for family in families for one in family.samples}
    own = [metric.name for metric in METRICS if metric.subject is ENGINE and metric.kind == "counter"]
    without = {"spec_decode_position_accepted_tokens_total"}
    assert {name for name, *_ in fresh if name in own} == set(own) - without
    assert {value for (name, *_), value in fresh.items() if name in own} == {0}


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (StatusError(401), [(("status 401",), 1.0)]),
        (StatusError(302, "login"), [(("status 302",), 1.0)]),
        (PollError("dns", "no such name"), [(("dns",), 1.0)]),
        (None, []),
    ],
)
def test_a_target_shows_why_its_newest_poll_failed_as_long_as_it_does(error, shown):
    record = PollRecord()
    record.failed("timeout", "no answer")
    if error is None:
        record.succeeded(0.1, 10, 1, 0.0)
    else:
        record.failed(error.reason, str(error))
    metric = next(one for one in METRICS if one.name.endswith("target_error"))
    assert list(metric.series(TargetStatus(record), (), None)) == shown
