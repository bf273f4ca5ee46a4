"""The example for Alertmanager: read by its own tool, and one alert about one cause."""

import re
import subprocess

import promql_parser
import pytest
import yaml

from tests.contract.promql import needs
from tests.paths import CHECKOUT

from . import shipped

PATH = CHECKOUT / "config" / "alertmanager" / "alertmanager.yml"
RULES = yaml.safe_load(PATH.read_text(encoding="utf-8"))["inhibit_rules"]
ALERTS = [{"alertname": alert["alert"], **alert["labels"]} for alert in shipped.ALERTS]
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
EXPORTER = {"job": "spec-decode", "instance": "gpu-1:7732"}


def named(name, labels, **more):
    return {"alertname": f"SpecDecode{name}", **labels, **more}


def silences(source, target):
    """Return whether ``source`` inhibits ``target``, as Alertmanager's documentation says it does."""
    for rule in RULES:
        sides = ((rule["source_matchers"], source), (rule["target_matchers"], target))
        matched = [
            HOLDS[how](alert.get(label, ""), wanted)
            for matchers, alert in sides
            for label, how, wanted in (MATCHER.fullmatch(matcher).groups() for matcher in matchers)
        ]
        equal = all(source.get(label, "") == target.get(label, "") for label in rule.get("equal", ()))
        if all(matched) and equal:
            return True
    return False


CRITICAL = named("ModelAcceptanceDropped", MODEL, severity="critical")
DOWN = named("TargetDown", TARGET, kind="down")
SAW_TOOTH = named("CountersUntrusted", ENGINE, kind="saw_tooth")
EXPORTER_DOWN = named("ExporterDown", EXPORTER, kind="down")
PREEMPTIONS = named("KvCachePressure", ENGINE, kind="preemptions")


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (CRITICAL, named("SuddenDrop", ENGINE, kind="sudden")),
        (CRITICAL, named("EngineBelowPeers", ENGINE, tokens="4")),
        (named("DrafterDead", ENGINE), named("AcceptanceLow", ENGINE, kind="length")),
        (named("AcceptanceLow", ENGINE, kind="rate"), named("WrongDraftLength", ENGINE, kind="too_long")),
        (named("SuddenDrop", ENGINE, kind="sudden"), named("EngineBelowPeers", ENGINE, method="eagle3", tokens="4")),
        (DOWN, named("SuddenDrop", ENGINE)),
        (SAW_TOOTH, named("DrafterDead", ENGINE)),
        (named("CountersUntrusted", ENGINE, kind="inconsistent"), named("WrongDraftLength", ENGINE)),
        (EXPORTER_DOWN, named("TargetDown", TARGET)),
        (named("TargetDown", TARGET, kind="gone"), DOWN),
        (named("TargetDown", TARGET, kind="gone"), named("SuddenDrop", ENGINE)),
        (PREEMPTIONS, named("TailLatencyWidening", ENGINE)),
    ],
)  # fmt: skip
def test_a_cause_inhibits_its_consequences_and_those_of_no_other_cluster_or_namespace(source, target):
    """Addresses and names of pods occur again in other clusters and namespaces."""
    assert silences(source, target)
    assert not silences(target, source)
    for label in ("cluster", "namespace"):
        assert silences({**source, label: "a"}, {**target, label: "a"})
        assert not silences({**source, label: "a"}, {**target, label: "b"})


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (CRITICAL, named("SuddenDrop", {**ENGINE, "model_name": "qwen"})),
        (CRITICAL, named("TargetDown", TARGET)),
        *((CRITICAL, named(name, ENGINE)) for name in ("DrafterDead", "NetSlowdown", "AcceptanceLow", "DraftsStalled")),
        (named("DrafterDead", ENGINE), named("AcceptanceLow", {**ENGINE, "engine": "1"})),
        (DOWN, named("SuddenDrop", {**ENGINE, "target": "code"})),
        (DOWN, named("TargetDown", TARGET, kind="no_engine")),
        (named("TargetDown", TARGET, kind="no_engine"), named("SuddenDrop", ENGINE)),
        (named("CountersUntrusted", ENGINE, kind="inconsistent"), named("SuddenDrop", ENGINE)),
        (EXPORTER_DOWN, named("SuddenDrop", {**ENGINE, "instance": "gpu-2:7732"})),
        (named("ExporterDown", {}, kind="absent"), EXPORTER_DOWN),
    ],
)  # fmt: skip
def test_an_alert_with_its_own_cause_is_not_inhibited(source, target):
    assert not silences(source, target)


def test_an_exporter_that_is_down_inhibits_that_there_is_none():
    absent = named("ExporterDown", {}, kind="absent")
    assert silences(EXPORTER_DOWN, absent)
    assert not silences({**EXPORTER_DOWN, "cluster": "a"}, {**absent, "cluster": "b"})


def test_no_alert_silences_itself_and_no_two_silence_each_other():
    """The pair of an alert with itself is one of the pairs."""
    alerts = [{**alert, **ENGINE} for alert in ALERTS]
    pairs = {(i, j) for i, one in enumerate(alerts) for j, other in enumerate(alerts) if silences(one, other)}
    assert pairs
    assert [(ALERTS[i], ALERTS[j]) for i, j in pairs if (j, i) in pairs] == []


@needs("amtool")
@pytest.mark.parametrize(
    ("severity", "receiver"), [("critical", "night"), ("warning", "day"), ("info", "advice")]
)
def test_a_severity_has_its_receiver(severity, receiver):
    command = ["amtool", "config", "routes", "test", f"--config.file={PATH}", f"severity={severity}"]
    assert subprocess.check_output(command, text=True).strip() == receiver


def test_every_alert_that_is_named_exists():
    texts = [
        matcher for rule in RULES for side in ("source", "target") for matcher in rule[f"{side}_matchers"]
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
        for alert in shipped.ALERTS
        if "keep_firing_for" in alert
    }
    assert last["SpecDecodeModelAcceptanceDropped"] > last["SpecDecodeSuddenDrop"]
