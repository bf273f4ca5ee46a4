"""The example for Alertmanager: read by its own tool, and one alert about one cause."""

from __future__ import annotations

import re
import shutil
import subprocess

import promql_parser
import pytest
import yaml

from tests.every import every

from .shipped import ROOT, alerts, needs

PATH = ROOT / "config" / "alertmanager" / "alertmanager.yml"
CONFIG = yaml.safe_load(PATH.read_text(encoding="utf-8"))
NAMES = {alert["alert"] for alert in alerts()}

MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"(.*)"')
HOLDS = {
    "=": lambda value, wanted: value == wanted,
    "!=": lambda value, wanted: value != wanted,
    "=~": lambda value, pattern: re.fullmatch(pattern, value) is not None,
    "!~": lambda value, pattern: re.fullmatch(pattern, value) is None,
}

ENGINE = {
    "job": "spec-decode",
    "instance": "gpu-1:7732",
    "target": "chat",
    "model_name": "llama",
    "engine": "0",
}
MODEL = {"job": "spec-decode", "model_name": "llama"}
TARGET = {"job": "spec-decode", "instance": "gpu-1:7732", "target": "chat"}
A = {"cluster": "a"}
EXPORTER = {"job": "spec-decode", "instance": "gpu-1:7732"}


def named(name, labels, **more):
    return {"alertname": f"SpecDecode{name}", **labels, **more}


def matches(matchers, alert):
    parts = [MATCHER.fullmatch(matcher).groups() for matcher in matchers]
    return all(HOLDS[how](alert.get(label, ""), wanted) for label, how, wanted in parts)


def silences(source, target):
    """Return whether ``source`` inhibits ``target``, as Alertmanager's documentation says it does."""
    return any(
        matches(rule["source_matchers"], source)
        and matches(rule["target_matchers"], target)
        and all(source.get(label, "") == target.get(label, "") for label in rule.get("equal", ()))
        for rule in CONFIG["inhibit_rules"]
    )


@needs("amtool")
def test_alertmanager_reads_it():
    run = subprocess.run(
        [shutil.which("amtool"), "check-config", PATH], capture_output=True, text=True, check=False
    )
    assert (run.returncode, "SUCCESS" in run.stdout) == (0, True), run.stderr


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (named("ModelAcceptanceDropped", MODEL), named("SuddenDrop", ENGINE, kind="sudden")),
        (named("ModelAcceptanceDropped", MODEL), named("NetSlowdown", ENGINE, window="5m")),
        (named("ModelAcceptanceDropped", MODEL), named("ModelBelowYesterday", MODEL, method="eagle3", tokens="4")),
        (named("DrafterDead", ENGINE), named("AcceptanceLengthLow", ENGINE)),
        (named("NetSlowdown", ENGINE, window="5m"), named("AcceptanceBelowBreakEven", ENGINE)),
        (named("SuddenDrop", ENGINE, kind="sudden"), named("EngineBelowPeers", ENGINE, method="eagle3", tokens="4")),
        (named("TargetDown", TARGET), named("SuddenDrop", ENGINE)),
        (named("TargetDown", TARGET), named("PollsFailing", TARGET)),
        (named("CountersSawTooth", ENGINE), named("DrafterDead", ENGINE)),
        (named("CountersInconsistent", ENGINE, check="positions_add_up"), named("LastPositionWasted", ENGINE)),
        (named("ExporterDown", EXPORTER), named("TargetDown", TARGET)),
        (named("ExporterAbsent", {}), named("ExporterDown", EXPORTER)),
        (named("PreemptionStorm", ENGINE), named("KvCachePressure", ENGINE)),
        (named("ModelBelowYesterday", MODEL, method="eagle3", tokens="4"), named("SlowDrift", ENGINE, kind="slow")),
        (named("ExporterAbsent", A), named("ExporterDown", {**EXPORTER, **A, "namespace": "inference"})),
    ],
)  # fmt: skip
def test_a_cause_inhibits_its_consequences(source, target):
    assert silences(source, target)
    assert not silences(target, source)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (named("ModelAcceptanceDropped", MODEL), named("SuddenDrop", {**ENGINE, "model_name": "qwen"})),
        (named("ModelAcceptanceDropped", MODEL), named("SuddenDrop", {**ENGINE, "namespace": "staging"})),
        (named("ModelAcceptanceDropped", MODEL), named("TargetDown", TARGET)),
        (named("DrafterDead", ENGINE), named("AcceptanceLengthLow", {**ENGINE, "engine": "1"})),
        (named("TargetDown", TARGET), named("SuddenDrop", {**ENGINE, "target": "code"})),
        (named("TargetDown", TARGET), named("TargetDown", TARGET)),
        (named("TargetDown", TARGET), named("ReloadFailed", EXPORTER)),
        (named("CountersSawTooth", ENGINE), named("CountersSawTooth", {**ENGINE, "engine": "1"})),
        (named("CountersSawTooth", ENGINE), named("TargetDown", TARGET)),
        (named("CountersInconsistent", ENGINE), named("SuddenDrop", ENGINE)),
        (named("ExporterDown", EXPORTER), named("SuddenDrop", {**ENGINE, "instance": "gpu-2:7732"})),
        (named("ExporterDown", EXPORTER), named("ExporterAbsent", {})),
        (named("ModelAcceptanceDropped", MODEL), named("DrafterDead", ENGINE)),
        (named("ModelBelowYesterday", MODEL, arm="eagle"), named("SlowDrift", {**ENGINE, "arm": "ngram"})),
        (named("ExporterAbsent", A), named("ExporterDown", {**EXPORTER, "cluster": "b"})),
    ],
)  # fmt: skip
def test_an_alert_with_its_own_cause_is_not_inhibited(source, target):
    assert not silences(source, target)


@pytest.mark.parametrize("label", ["cluster", "namespace"])
@pytest.mark.parametrize(
    ("source", "target"),
    [
        (named("ExporterDown", EXPORTER), named("SuddenDrop", ENGINE)),
        (named("TargetDown", TARGET), named("SuddenDrop", ENGINE)),
        (named("CountersSawTooth", ENGINE), named("DrafterDead", ENGINE)),
        (named("CountersInconsistent", ENGINE), named("LastPositionWasted", ENGINE)),
        (named("ModelAcceptanceDropped", MODEL), named("SuddenDrop", ENGINE)),
        (named("ModelBelowYesterday", MODEL), named("SlowDrift", ENGINE)),
        (named("DrafterDead", ENGINE), named("SuddenDrop", ENGINE)),
        (named("NetSlowdown", ENGINE), named("AcceptanceLengthLow", ENGINE)),
        (named("PreemptionStorm", ENGINE), named("KvCachePressure", ENGINE)),
    ],
)
def test_nothing_is_silenced_by_its_like_elsewhere(source, target, label):
    """Pods' addresses and names come again in other clusters and namespaces."""
    assert silences({**source, label: "a"}, {**target, label: "a"})
    assert not silences({**source, label: "a"}, {**target, label: "b"})


@every(sorted(NAMES))
def test_no_alert_silences_itself(name):
    assert not silences({"alertname": name, **ENGINE}, {"alertname": name, **ENGINE})


def test_no_two_alerts_silence_each_other():
    assert [
        (one, other)
        for one in NAMES
        for other in NAMES
        if silences({"alertname": one, **ENGINE}, {"alertname": other, **ENGINE})
        and silences({"alertname": other, **ENGINE}, {"alertname": one, **ENGINE})
    ] == []


def test_every_alert_that_is_named_exists():
    texts = [
        matcher
        for rule in CONFIG["inhibit_rules"]
        for side in ("source", "target")
        for matcher in rule[f"{side}_matchers"]
    ]
    plain = {name for text in texts for name in re.findall(r'="(SpecDecode\w+)"', text)}
    listed = {
        f"SpecDecode{before}{name}{after}"
        for text in texts
        for before, names, after in re.findall(r'"SpecDecode(\w*)\(([^)]*)\)(\w*)"', text)
        for name in names.split("|")
    }
    assert plain
    assert listed
    assert [one for one in plain | listed if not any(re.fullmatch(one, name) for name in NAMES)] == []


def test_a_model_drop_fires_longer_than_the_drops_of_its_engines():
    """Otherwise the end of the one looks like the beginning of the others."""
    last = {
        alert["alert"]: promql_parser.parse_duration(alert["keep_firing_for"])
        for alert in alerts()
        if "keep_firing_for" in alert
    }
    assert last["SpecDecodeModelAcceptanceDropped"] > last["SpecDecodeSuddenDrop"]
