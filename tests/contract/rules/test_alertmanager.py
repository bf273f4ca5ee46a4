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
ALERTS = [{"alertname": alert["alert"], **alert["labels"]} for alert in alerts()]
NAMES = {alert["alertname"] for alert in ALERTS}

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
        (named("ModelAcceptanceDropped", MODEL, severity="critical"), named("SuddenDrop", ENGINE, kind="sudden")),
        (named("ModelAcceptanceDropped", MODEL, severity="critical"), named("SlowDrift", ENGINE, kind="slow")),
        (named("ModelAcceptanceDropped", MODEL, severity="critical"), named("EngineBelowPeers", ENGINE, tokens="4")),
        (named("DrafterDead", ENGINE), named("AcceptanceLow", ENGINE, kind="length")),
        (named("NetSlowdown", ENGINE, window="5m"), named("AcceptanceLow", ENGINE, kind="break_even")),
        (named("AcceptanceLow", ENGINE, kind="rate"), named("WrongDraftLength", ENGINE, kind="too_long")),
        (named("SuddenDrop", ENGINE, kind="sudden"), named("EngineBelowPeers", ENGINE, method="eagle3", tokens="4")),
        (named("TargetDown", TARGET, kind="down"), named("SuddenDrop", ENGINE)),
        (named("TargetDown", TARGET, kind="down"), named("PollsUnhealthy", TARGET, kind="failing")),
        (named("CountersUntrusted", ENGINE, kind="saw_tooth"), named("DrafterDead", ENGINE)),
        (named("CountersUntrusted", ENGINE, kind="inconsistent"), named("WrongDraftLength", ENGINE)),
        (named("ExporterDown", EXPORTER, kind="down"), named("TargetDown", TARGET)),
        (named("KvCachePressure", ENGINE, kind="preemptions"), named("KvCachePressure", ENGINE, kind="usage")),
        (named("KvCachePressure", ENGINE, kind="preemptions"), named("TailLatencyWidening", ENGINE)),
    ],
)  # fmt: skip
def test_a_cause_inhibits_its_consequences(source, target):
    assert silences(source, target)
    assert not silences(target, source)


CRITICAL = named("ModelAcceptanceDropped", MODEL, severity="critical")


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (CRITICAL, named("SuddenDrop", {**ENGINE, "model_name": "qwen"})),
        (CRITICAL, named("SuddenDrop", {**ENGINE, "namespace": "staging"})),
        (CRITICAL, named("TargetDown", TARGET)),
        (CRITICAL, named("SwitchedOff", MODEL)),
        *((CRITICAL, named(name, ENGINE)) for name in ("DrafterDead", "NetSlowdown", "AcceptanceLow", "DraftsStalled")),
        (named("DrafterDead", ENGINE), named("AcceptanceLow", {**ENGINE, "engine": "1"})),
        (named("TargetDown", TARGET, kind="down"), named("SuddenDrop", {**ENGINE, "target": "code"})),
        (named("TargetDown", TARGET, kind="down"), named("TargetDown", TARGET, kind="no_engine")),
        (named("TargetDown", TARGET, kind="down"), named("ExporterDegraded", EXPORTER)),
        (named("TargetDown", TARGET, kind="no_engine"), named("SuddenDrop", ENGINE)),
        (named("CountersUntrusted", ENGINE, kind="saw_tooth"), named("SuddenDrop", {**ENGINE, "engine": "1"})),
        (named("CountersUntrusted", ENGINE, kind="saw_tooth"), named("TargetDown", TARGET)),
        (named("CountersUntrusted", ENGINE, kind="inconsistent"), named("SuddenDrop", ENGINE)),
        (named("ExporterDown", EXPORTER, kind="down"), named("SuddenDrop", {**ENGINE, "instance": "gpu-2:7732"})),
        (named("ExporterDown", EXPORTER, kind="down"), named("ExporterDown", {}, kind="absent")),
        (named("ExporterDown", {}, kind="absent"), named("ExporterDown", EXPORTER, kind="down")),
    ],
)  # fmt: skip
def test_an_alert_with_its_own_cause_is_not_inhibited(source, target):
    assert not silences(source, target)


def test_only_a_critical_alert_of_a_model_inhibits_without_an_equal_engine():
    """A cause that has no engine is an exporter or a server that is down as a whole."""
    place = {"instance", "target", "engine"}
    without = {
        tuple(rule["source_matchers"]): place - set(rule["equal"])
        for rule in CONFIG["inhibit_rules"]
        if not place <= set(rule["equal"])
    }
    assert without == {
        ('severity="critical"', 'model_name!=""'): place,
        ('alertname="SpecDecodeExporterDown"', 'kind="down"'): {"target", "engine"},
        ('alertname="SpecDecodeTargetDown"', 'kind="down"'): {"engine"},
    }


@pytest.mark.parametrize("label", ["cluster", "namespace"])
@pytest.mark.parametrize(
    ("source", "target"),
    [
        (named("ExporterDown", EXPORTER, kind="down"), named("SuddenDrop", ENGINE)),
        (named("TargetDown", TARGET, kind="down"), named("SuddenDrop", ENGINE)),
        (named("CountersUntrusted", ENGINE, kind="saw_tooth"), named("SuddenDrop", ENGINE)),
        (named("CountersUntrusted", ENGINE, kind="inconsistent"), named("WrongDraftLength", ENGINE)),
        (CRITICAL, named("SuddenDrop", ENGINE)),
        (named("DrafterDead", ENGINE), named("SuddenDrop", ENGINE)),
        (named("NetSlowdown", ENGINE), named("AcceptanceLow", ENGINE)),
        (named("KvCachePressure", ENGINE, kind="preemptions"), named("KvCachePressure", ENGINE, kind="usage")),
    ],
)  # fmt: skip
def test_nothing_is_silenced_by_its_like_elsewhere(source, target, label):
    """Pods' addresses and names come again in other clusters and namespaces."""
    assert silences({**source, label: "a"}, {**target, label: "a"})
    assert not silences({**source, label: "a"}, {**target, label: "b"})


@every(ALERTS, lambda alert: " ".join(alert.values()))
def test_no_alert_silences_itself(alert):
    assert not silences({**alert, **ENGINE}, {**alert, **ENGINE})


def test_no_two_alerts_silence_each_other():
    assert [
        (one, other)
        for one in ALERTS
        for other in ALERTS
        if silences({**one, **ENGINE}, {**other, **ENGINE})
        and silences({**other, **ENGINE}, {**one, **ENGINE})
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
