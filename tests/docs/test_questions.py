"""docs/guide/questions.md: every question has a figure, a command and a source, and all that it names exists."""

from __future__ import annotations

import re

import promql_parser
import pytest

from spec_decode_exporter.analysis.finding import FindingName
from tests.every import every

from .documents import (
    DOCS,
    alerts,
    blocks,
    code,
    series,
    unknown_flags,
    wrong_command,
    wrong_field,
    wrong_links,
    wrong_request,
    wrong_series,
)

PAGE = DOCS / "guide/questions.md"
TEXT = PAGE.read_text(encoding="utf-8")
QUESTIONS = dict(re.findall(r"^### (.*?)\n(.*?)(?=^##|\Z)", TEXT, flags=re.MULTILINE | re.DOTALL))
LINES = [line for block in blocks(TEXT, "sh") for line in block.splitlines()]
QUERIES = blocks(TEXT, "promql")
CODE = code(TEXT)

each_question = every(QUESTIONS)


def part(question, name):
    (found,) = re.findall(
        rf"^\*\*{name}:\*\* (.*?)(?:\n\n|\Z)", QUESTIONS[question], flags=re.MULTILINE | re.DOTALL
    )
    return found


@each_question
def test_a_question_has_an_answer_a_figure_a_command_and_a_source(question):
    answer = QUESTIONS[question].partition("**Figure:**")[0]
    assert 15 <= len(answer.split()) <= 100
    assert series(code(part(question, "Figure")))
    assert blocks(QUESTIONS[question], "sh", "promql")
    assert "](" in part(question, "Source")


@every([*series(CODE), *QUERIES])
def test_every_series_label_and_state_exists(name):
    assert list(wrong_series(name)) == []


@every(QUERIES)
def test_every_query_is_valid(query):
    promql_parser.parse(query)


@every([line for line in LINES if line.startswith("spec-decode-exporter")])
def test_every_command_is_valid(line):
    assert wrong_command(line) is None


@every([line for line in LINES if line.startswith("curl")])
def test_every_request_and_field_of_its_program_exists(line):
    assert list(wrong_request(line)) == []


def test_there_is_no_other_kind_of_command():
    assert [line for line in LINES if not line.startswith(("spec-decode-exporter ", "curl "))] == []


@every([name for name in CODE if re.match(r"(engines|targets|experiments)\[\]", name)])
def test_every_field_of_the_api_exists(name):
    assert not wrong_field(name)


@every([name for text in re.findall(r"finding `(\w+)`", TEXT) for name in (text,)])
def test_every_finding_exists(name):
    assert name in {*FindingName}


def test_every_flag_exists():
    assert unknown_flags(CODE) == set()


def test_every_alert_exists():
    assert alerts(CODE) == set()


def test_every_place_on_the_page_exists():
    source = "".join(
        path.read_text(encoding="utf-8") for path in (DOCS.parent / "exporter").glob("*/web/page/*.py")
    )
    places = re.findall(r"Page: ((?:\*[^*]+\*(?:, )?)+)", TEXT)
    named = [" ".join(name.split()) for place in places for name in re.findall(r"\*([^*]+)\*", place)]
    assert len(named) > 5
    assert [name for name in named if f'"{name}' not in source] == []


def test_every_link_leads_somewhere():
    assert list(wrong_links(TEXT, PAGE)) == []


def test_the_table_on_top_names_every_group():
    groups = re.findall(r"^## (.*)$", TEXT, flags=re.MULTILINE)
    assert re.findall(r"^\| \[(.*?)\]", TEXT, flags=re.MULTILINE) == groups


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (lambda: list(wrong_series('spec_decode_state{state="stuck"}')), ["spec_decode_state{state=stuck}"]),
        (lambda: list(wrong_series("spec_decode_acceptance")), ["spec_decode_acceptance"]),
        (lambda: wrong_command("spec-decode-exporter observe --untill 5m") is None, False),
        (lambda: list(wrong_request("curl localhost:7732/api/v1/snapshots")), ["/api/v1/snapshots"]),
        (lambda: list(wrong_request("curl localhost:7732/api/v1/events?kind=drop")), ["kind"]),
        (lambda: list(wrong_request("curl localhost:7732/api/v1/snapshot | jq '.engins[]'")), ["engins"]),
        (lambda: wrong_field("engines[].costs.source"), True),
        (lambda: wrong_field("engines[].cost.source"), False),
        (lambda: unknown_flags(["--for", "--fore"]), {"--fore"}),
        (lambda: alerts(["SpecDecodeSuddenDrop", "SpecDecodeDrop"]), {"SpecDecodeDrop"}),
        (
            lambda: list(
                wrong_links("[a](nowhere.md) [b](../reference/api.md#examples) [c](vllm.md#none)", PAGE)
            ),
            ["nowhere.md", "vllm.md#none"],
        ),
    ],
)
def test_a_wrong_name_is_found(check, wrong):
    assert check() == wrong
