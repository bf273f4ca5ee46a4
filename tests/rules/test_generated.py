"""The committed files are current, and every setting has an effect."""

from __future__ import annotations

import pytest

from config.prometheus.generate import recording
from config.prometheus.generate.__main__ import written
from config.prometheus.generate.alerts import ALERTS
from config.prometheus.generate.cases import ALERT_CASES
from config.prometheus.generate.rule import expression
from config.prometheus.generate.settings import filled, load, names_in
from spec_decode_exporter.analysis.comparability_limits import LOAD_FACTOR
from tests.every import every

from .shipped import PROMETHEUS, SETTINGS

FILES = dict(written())


@every(FILES, lambda path: path.name)
def test_the_committed_file_is_current(path):
    assert path.read_text(encoding="utf-8") == FILES[path], "run `python -m config.prometheus.generate`"


@pytest.mark.parametrize("folder", ["rules", "alerts", "tests"])
def test_nothing_else_lies_beside_them(folder):
    assert set((PROMETHEUS / folder).iterdir()) == {path for path in FILES if path.parent.name == folder}


def test_every_alert_has_settings_and_no_setting_is_left_over():
    assert set(SETTINGS.alerts) == {alert.name for alert in ALERTS}


@every(ALERTS, lambda alert: alert.name)
def test_every_threshold_is_used(alert):
    thresholds = set(SETTINGS.alerts[alert.name]) - {"severity", "for", "keep_firing_for"}
    assert thresholds <= names_in(alert.expr)


def test_arms_across_exporters_are_comparable_at_the_same_loads_as_in_one():
    assert SETTINGS.comparable_load == LOAD_FACTOR


def test_a_setting_that_is_missing_is_an_error():
    with pytest.raises(KeyError, match="speedup"):
        filled("x < @speedup", {})


def test_a_setting_fills_its_place_and_leaves_what_prometheus_means():
    assert filled('{{ $value }} % of x{a="@arm"}', {"arm": "eagle"}) == '{{ $value }} % of x{a="eagle"}'


def test_another_scope_and_another_label_of_arms_reach_every_rule(tmp_path):
    own = (PROMETHEUS / "settings.yml").read_text(encoding="utf-8")
    path = tmp_path / "settings.yml"
    path.write_text(
        own.replace("arm: arm", "arm: variant").replace("[cluster, namespace, job]", "[region]"),
        encoding="utf-8",
    )
    settings = load(path)
    text = "\n".join(
        filled(expression(rule.expr), settings.common)
        for file in recording.files(settings)
        for rule in file.recordings
    )
    assert "sum by (region, model_name) (rate(spec_decode_drafts_total[5m]))" in text
    assert 'rate(spec_decode_drafts_total{variant!=""}[5m])' in text
    assert "job" not in text
    assert "{arm" not in text


@every(ALERTS, lambda alert: alert.name)
def test_every_alert_is_tested_for_firing_and_for_silence(alert):
    cases = [case for case in ALERT_CASES if case.alert == alert.name]
    assert {bool(case.fires) for case in cases} == {True, False}
