"""A reload in the middle of a run changes what its keys are about; all other series are those of a run without it."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spec_decode_exporter.metrics.table import METRICS
from tests.service.conftest import story

SCENARIO = "load: {concurrency: 12}\nspeculation: {tokens: 4}"
BEFORE, AFTER = 45.0, 25.0  # seconds until the reload, and from it to the comparison
TARGET = "targets: [{url: 'http://vllm:8000/metrics', name: one%s}]\n"
PLAIN = "windows: [10s, 1m]\nmetrics: {profile: full}\n"
GROUP_OF = {metric.name: str(metric.group) for metric in METRICS}
OWN = re.compile(r"process_|python_|spec_decode_exporter_(config_|poll_seconds)")
"""Of the process, and of the configuration itself."""


NOTHING, SMALLER = "no group", "not in the smaller profile"
UNCHANGED = {}  # series of the run without a reload


class Change(NamedTuple):
    """Keys after the reload, and the series that they are about."""

    more: str = ""
    target: str = ""
    base: str = PLAIN
    concerns: str = NOTHING  # pattern of groups and names
    only_totals: bool = False  # windows are another thing


CHANGES = {
    "keys that are about no series": Change("poll: {timeout: 3s}\nbaseline: {prometheus: {url: 'http://prometheus:9090'}}\ndiscovery: {files: ['none-*.yml']}\nlog: {level: warning, summary_interval: 1m}\nlimits: {engines: 50}", target=", labels: {zone: z}, basic_auth: {username: u, password_file: exporter.yml}"),
    "histograms, reference, drops": Change("poll: {histogram_interval: 20s}\nreference: {acceptance_ratio: 0.9}\npolicy: {drops: {warm_up: 10m}}", concerns="latency|poll_bytes|reference|drop"),
    "experiments, requests, state": Change("experiments: [{name: x, arms: {a: {match: {name: one}}, b: {match: {name: two}}}, baseline: b}]\nrequests: {ingest: true}\nstate: {file: state.json}", concerns="experiments|requests_|state_last_save"),
    "shorter windows": Change(base=PLAIN.replace("1m", "30s"), concerns="pay", only_totals=True),
    "longer windows": Change(base=PLAIN.replace("1m", "2m"), concerns="pay", only_totals=True),
    "cost": Change("cost: {draft_cost_ratio: 0.3}", concerns="pay"),
    "cost of a target": Change(target=", cost: {draft_cost_ratio: 0.3}", concerns="pay"),
    "policy of verdicts": Change("policy: {min_drafts: 100000}", concerns="pay"),
    "method": Change(target=", speculative: {method: eagle3}", concerns="pay|acceptance_dropped"),
    "configured K": Change(target=", speculative: {tokens: 6}", concerns="pay|position|length_ratio"),
    "profile": Change(base=PLAIN.replace("full", "minimal"), concerns=SMALLER),
    "groups": Change(base=PLAIN.replace("full", "full, disable: [latency]"), concerns="latency"),
}  # fmt: skip


async def series(tmp_path, clock, network, change=None):
    """Return the values of a run by name and labels, besides those of the process and its configuration."""
    clock.now = 1_000.0  # the phase of a poll depends on it
    async with story(tmp_path, clock, network, SCENARIO, config=PLAIN) as told:
        await clock.advance(BEFORE)
        if change is not None:
            await told.reload(TARGET % change.target + change.base + change.more + "\n")
        await clock.advance(AFTER)
        page = await told.get("metrics")
    return {
        (sample.name, frozenset(sample.labels.items() - {("zone", "z")})): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if not OWN.match(sample.name)
    }


@pytest.mark.parametrize("name", CHANGES)
async def test_series_that_a_reload_is_not_about_stay_equal(tmp_path, clock, network, name):
    if not UNCHANGED:
        UNCHANGED.update(await series(tmp_path, clock, network))
    expected, change = UNCHANGED, CHANGES[name]
    found = await series(tmp_path, clock, network, change)
    differ = [key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key)]
    if name == "profile":
        differ = [key for key in differ if key in found]
    unconcerned = set()
    for series_name, labels in differ:
        metric = re.sub("_(bucket|count|sum)$", "", series_name)
        group = GROUP_OF.get(series_name) or GROUP_OF.get(metric, "")
        is_excused = change.only_totals and "window" in dict(labels)
        if not is_excused and not re.search(change.concerns, f"{group} {series_name}"):
            unconcerned.add(series_name)
    assert unconcerned == set()
    assert bool(differ) or change.concerns in (NOTHING, SMALLER)
