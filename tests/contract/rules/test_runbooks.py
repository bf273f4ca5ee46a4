"""Every alert has a runbook that can be followed at night."""

from __future__ import annotations

import re

import promql_parser

from tests.every import every

from .shipped import RUNBOOKS, alerts, queries_of

PAGES = {path.stem: path.read_text(encoding="utf-8") for path in RUNBOOKS.glob("*.md")}
KINDS = [(alert["alert"], alert["labels"]["kind"]) for alert in alerts() if "kind" in alert["labels"]]

each = every(sorted(PAGES))


def test_every_alert_has_one_and_none_is_left_over():
    assert set(PAGES) == {alert["alert"] for alert in alerts()}


@each
def test_it_says_meaning_diagnosis_and_action(name):
    assert PAGES[name].startswith(f"# {name}\n")
    headings = re.findall(r"^## (.*)$", PAGES[name], flags=re.MULTILINE)
    assert headings == ["Meaning", "Diagnosis", "Action"]
    assert all(len(part.split()) >= 5 for part in re.split(r"^## .*$", PAGES[name], flags=re.MULTILINE)[1:])


@every(KINDS, " ".join)
def test_it_names_each_kind_of_its_alert(kind):
    name, word = kind
    assert f"`{word}`" in PAGES[name]


@each
def test_the_diagnosis_has_queries(name):
    diagnosis = PAGES[name].partition("## Diagnosis")[2].partition("## Action")[0]
    assert queries_of(diagnosis)
    assert all(promql_parser.parse(query) for query in queries_of(diagnosis))


@each
def test_its_links_lead_somewhere(name):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", PAGES[name])
    assert [link for link in links if not (RUNBOOKS / link).exists()] == []


@each
def test_it_is_short(name):
    prose = re.sub(r"```.*?```", "", PAGES[name], flags=re.DOTALL)
    assert len(prose.split()) <= 130
