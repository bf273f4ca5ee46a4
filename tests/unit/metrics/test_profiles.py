"""Profiles: each is small enough, and ``standard`` is what shipped files read and what the exporter is for."""

import re
from collections import defaultdict
from functools import cache

import pytest

from docs.generate.series_counts import LABELS, engine_series, exporter_series, series, target_series
from spec_decode_exporter.config.schema import Metrics, Profile
from spec_decode_exporter.metrics.page import selected_metrics
from spec_decode_exporter.metrics.table import METRICS
from spec_decode_exporter.monitor.snapshot import Snapshot
from tests.contract.grafana.shipped import BOARDS
from tests.contract.integrations.shipped import keda_queries
from tests.contract.promql import selectors
from tests.contract.rules.shipped import rules
from tests.contract.test_names import EXPRESSIONS, VARIABLES
from tests.paths import CHECKOUT

METRIC_OF = {
    f"{metric.name}{suffix}": metric for suffix in ("_bucket", "_sum", "_count", "") for metric in METRICS
}
"""By the names of their samples, also those of histograms."""


@cache
def used():
    """Return the windows that shipped files read of each metric; empty for a metric without windows."""
    found = defaultdict(set)
    for expression in [*(expression for _, expression in EXPRESSIONS), *keda_queries().values()]:
        for selector in selectors(expression):
            windows = {one.value for one in selector.matchers.matchers if one.name == "window"}
            metric = METRIC_OF.get(selector.name)
            found[metric] |= windows if metric and "window" in metric.label_names else set()
    for _, _, selector, label in VARIABLES:
        metric = METRIC_OF.get(selector.partition("{")[0])
        found[metric] |= {"30s", "5m"} if label == "window" else set()
    for text in templates():
        for name, matchers in re.findall(r"(?<![:\w])(spec_decode_\w+)(?![:\w])(\{[^}]*\})?", text):
            found[METRIC_OF.get(name)] |= set(re.findall(r"""\bwindow=['"]+(\w+)""", matchers))
    return {metric.name: windows for metric, windows in found.items() if metric}


def templates():
    """Yield texts that name metrics and are no PromQL: annotations, marks, answers to questions."""
    for rule in rules():
        yield from (
            re.sub(r"\{\{ \$labels.*?\}\}", '"x"', text) for text in rule.get("annotations", {}).values()
        )
    yield from (mark["expr"] for board in BOARDS.values() for mark in board["annotations"]["list"])
    yield (CHECKOUT / "docs/guide/questions.md").read_text(encoding="utf-8")


ESSENTIAL = {
    # throughput
    "spec_decode_drafts_per_second",
    "spec_decode_draft_tokens_per_second",
    "spec_decode_accepted_tokens_per_second",
    # acceptance with its bounds, over polls and over users
    "spec_decode_acceptance_length_tokens_lower",
    "spec_decode_acceptance_length_tokens_upper",
    "spec_decode_poll_acceptance_ratio",
    "spec_decode_interval_acceptance_ratio_min",
    "spec_decode_interval_acceptance_ratio_max",
    "spec_decode_interval_acceptance_quantile_ratio",
    "spec_decode_user_requests",
    "spec_decode_user_acceptance_ratio",
    # requests
    "spec_decode_request_saved_tokens_total",
    # what is likely where the verdict is not known yet
    "spec_decode_pays_share_ratio",
    # engines without usable counters
    "spec_decode_engine_reported_acceptance_ratio",
    "spec_decode_engine_reported_acceptance_length_tokens",
}
"""What the exporter is for: part of ``standard``, whether a shipped file reads it or not."""
ONE_WINDOW = {"longest": "5m", "shortest": "30s"}


def windows_of(profile):
    """Return the only window of each metric of a profile; empty for a metric with all or without any."""
    selected = selected_metrics(Metrics(profile=profile))
    return {metric.name: ONE_WINDOW.get(windows, "") for metric, windows in selected}


STANDARD = windows_of(Profile.STANDARD)


def test_standard_has_what_a_shipped_file_reads_and_what_the_exporter_is_for_and_nothing_else():
    assert sorted(STANDARD.keys() ^ (used().keys() | ESSENTIAL)) == []
    assert len(used()) > 80


def test_standard_has_every_window_that_they_read_and_no_other():
    """A selector without a window, of a metric with some, reads whichever there are."""
    one = {name: window for name, window in STANDARD.items() if window}
    missing = {name: windows - {one[name]} for name, windows in used().items() if name in one}
    assert {name for name, windows in missing.items() if windows} == set()
    both = {metric.name for metric in METRICS if metric.windows == "each" and STANDARD.get(metric.name) == ""}
    assert len(both) > 10
    assert {name for name in both if len(used().get(name, ())) == 1} == set()


def test_every_profile_contains_the_one_before_and_full_has_all_with_all_their_windows():
    minimal, full = windows_of(Profile.MINIMAL), dict(selected_metrics(Metrics(profile=Profile.FULL)))
    assert minimal.keys() < STANDARD.keys() < {metric.name for metric in METRICS}
    assert full == {metric: metric.windows for metric in METRICS}


@pytest.mark.parametrize(
    ("profile", "engine", "target", "exporter"),
    [
        (Profile.MINIMAL, (54, 54), 15, 8),
        (Profile.STANDARD, (151, 171), 16, 10),
        (Profile.FULL, (206, 242), 16, 10),
    ],
)
def test_series_are_as_many_as_stated(profile, engine, target, exporter, findings_of, busy_sample):
    """Of an engine with two windows, after hours of traffic, with 4 and 8 positions: see decision 18.

    Exact, so that a new metric is compared with the limit: 70 of ``minimal``, 153 of ``standard``:
    with six ratios of latencies to those of a baseline.
    """
    assert (engine_series(profile, 4), engine_series(profile, 8)) == engine
    assert (target_series(profile), exporter_series(profile)) == (target, exporter)
    busy = [busy_sample(n, 4) for n in range(310)]
    while_busy, idle = (
        series(Snapshot([(LABELS, findings_of(samples))]), profile)
        for samples in (busy, [*busy, *[busy[-1]] * 310])
    )
    assert idle < while_busy <= engine[0]
