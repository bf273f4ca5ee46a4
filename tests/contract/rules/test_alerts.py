"""Every alert, with its row in the guide and its runbook, says what a reader needs at night."""

import re

import promql_parser as promql

from spec_decode_exporter.analysis.window_evaluation import DEAD
from spec_decode_exporter.experiments.traffic import TRAFFIC, Traffic
from tests.contract.docs.documents import blocks
from tests.contract.promql import of_kind
from tests.contract.rules.alert_cases import CASES as LIVED
from tests.contract.rules.alert_cases import WITHOUT_A_CASE
from tests.every import every
from tests.paths import CHECKOUT

from .shipped import ALERTS, PROMETHEUS, RUNBOOKS, rule_id, rules
from .test_promtool import CASES

DASHBOARDS = {path.stem for path in (CHECKOUT / "grafana" / "dashboards").glob("*.json")}
LARGEST_NUMBER = 24
CRITICAL = {"SpecDecodeTargetDown gone", "SpecDecodeModelAcceptanceDropped"}
"""Alerts for which somebody gets up."""
VERBS = "Add|Compare|Correct|Do not|Give|Keep|Look|Lower|Move|Poll|Raise|Read|Restart|Roll|Send|Set|Start|Try"

each = every(ALERTS, rule_id)


def test_names_are_unique_begin_alike_and_have_a_kind_if_several_rules_share_one():
    names = [alert["alert"] for alert in ALERTS]
    assert len({*names}) <= LARGEST_NUMBER
    assert len({rule_id(alert) for alert in ALERTS}) == len(ALERTS)
    assert all(re.fullmatch(r"SpecDecode([A-Z][a-z]+)+", name) for name in names)
    assert all("kind" in alert["labels"] for alert in ALERTS if names.count(alert["alert"]) > 1)


def test_every_alert_has_a_case_that_make_e2e_lives_through():
    named = {fires.alert for case in LIVED.values() for fires in case.fires}
    assert named | set(WITHOUT_A_CASE) == {alert["alert"] for alert in ALERTS}
    assert named.isdisjoint(WITHOUT_A_CASE)


def test_severities_are_three_and_those_that_only_advise_are_in_a_file_of_their_own():
    by_severity = {"critical": set(), "warning": set(), "info": set()}
    for alert in ALERTS:
        assert set(alert["labels"]) <= {"severity", "kind"}
        by_severity[alert["labels"]["severity"]].add(rule_id(alert))
    assert by_severity["critical"] == CRITICAL
    advice = (PROMETHEUS / "alerts" / "advice.yml").read_text(encoding="utf-8")
    assert {name.split()[0] for name in by_severity["info"]} == set(re.findall(r"- alert: (\w+)", advice))


@each
def test_the_summary_is_one_sentence_and_the_description_names_what_is_affected_and_ends_with_the_action(
    alert,
):
    summary, description = alert["annotations"]["summary"], alert["annotations"]["description"]
    assert summary.endswith(".")
    assert not re.search(r"{{|\. ", summary)
    assert "{{ $labels." in description or rule_id(alert) == "SpecDecodeExporterDown absent"
    action = re.sub(r"{{.*?}}", "", description)
    assert re.search(rf"(?:[.)] |and )(?:{VERBS}|add)\b[^.]*(?:\.[^.]+)*\.$", action)


@each
def test_there_are_a_dashboard_and_a_runbook_where_an_exporter_that_is_up_serves_it_at_a_known_address(alert):
    annotations = alert["annotations"]
    served = alert["alert"] != "SpecDecodeExporterDown"
    assert set(annotations) == {"summary", "description", "dashboard_url"} | (
        {"runbook_url"} if served else set()
    )
    if served:
        assert annotations["runbook_url"] == (
            '{{ with query "spec_decode_exporter_web_info" }}{{ . | first | label "external_url" }}'
            f"/docs/runbooks/{alert['alert']}.md{{{{ end }}}}"
        )
    start, _, rest = annotations["dashboard_url"].partition("/d/")
    assert start == "http://localhost:3000"
    assert rest.partition("?")[0] in DASHBOARDS


@each
def test_ranges_hold_two_scrapes_of_60_s_and_rates_four(alert):
    ranges = of_kind(alert["expr"], promql.MatrixSelector)
    rates = [
        call.args[0] for call in of_kind(alert["expr"], promql.Call) if call.func.name in {"rate", "increase"}
    ]
    assert all(one.range.total_seconds() >= 120 for one in ranges)
    assert all(one.range.total_seconds() >= 240 for one in rates)


def test_a_dead_drafter_and_a_comparable_load_are_the_same_as_for_findings():
    expressions = {rule_id(alert): alert["expr"] for alert in ALERTS}
    assert f"< {DEAD}\n" in expressions["SpecDecodeDrafterDead"]
    [load] = [rule["expr"] for rule in rules() if "comparable_load" in rule.get("record", "")]
    limit = TRAFFIC[Traffic.LOAD].limit
    assert load.count(f">= {1 / limit:.3f} <= {limit:g}") == 2


# The table of the guide: severity, and when an alert fires and ends as promtool measures it.


def table():
    """Return the cells of each row after the kind, by alert and kind; a name stands in the first of its rows."""
    rows, name = {}, ""
    for line in (CHECKOUT / "docs" / "guide" / "alerts.md").read_text(encoding="utf-8").splitlines():
        if match := re.fullmatch(
            r"\| (?:\[(\w+)\]\(\.\./runbooks/SpecDecode\1\.md\))? ?\| (?:`(\w+)`)? ?\| (.*) \|", line
        ):
            name = match[1] or name
            rows[" ".join(filter(None, (f"SpecDecode{name}", match[2])))] = match[3].split(" | ")
    return rows


TABLE = table()


def test_the_guide_has_a_row_for_every_alert_and_an_action_for_every_name():
    assert sorted(TABLE) == sorted(rule_id(alert) for alert in ALERTS)
    actions = {rule_id(alert).split()[0]: TABLE[rule_id(alert)][2] for alert in reversed(ALERTS)}
    assert all(actions.values())


@each
def test_the_guide_says_when_an_alert_fires_and_ends(alert):
    _, case, _ = CASES[rule_id(alert)]
    measured = (max(map(int, seconds)) for seconds in zip(*case["fires"].values(), strict=True))
    severity, means, _, *times = TABLE[rule_id(alert)]
    assert means
    assert [severity, *times] == [
        alert["labels"]["severity"],
        *(f"{seconds // 60}:{seconds % 60:02d}" for seconds in measured),
    ]


# Runbooks

PAGES = {path.stem: path.read_text(encoding="utf-8") for path in RUNBOOKS.glob("*.md")}


def test_every_alert_has_a_runbook_that_names_its_kinds_and_none_is_left_over():
    assert set(PAGES) == {alert["alert"] for alert in ALERTS}
    kinds = [(alert["alert"], alert["labels"]["kind"]) for alert in ALERTS if "kind" in alert["labels"]]
    assert [f"{name} {kind}" for name, kind in kinds if f"`{kind}`" not in PAGES[name]] == []


@every(sorted(PAGES))
def test_a_runbook_is_short_and_has_a_meaning_a_diagnosis_with_queries_and_an_action(name):
    title, *parts = re.split(r"^## ", PAGES[name], flags=re.MULTILINE)
    assert title.startswith(f"# {name}\n")
    assert [part.partition("\n")[0] for part in parts] == ["Meaning", "Diagnosis", "Action"]
    assert all(len(part.split()) > 5 for part in parts)
    assert "".join(blocks(parts[1], "promql")).strip()
    assert "](../guide/questions.md#" in parts[0], "link to the question that this alert answers"
    assert len(re.sub(r"```.*?```", "", PAGES[name], flags=re.DOTALL).split()) <= 130
