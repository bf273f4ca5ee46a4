"""The snippets of docs/guide/integrations.md: queries, names, links and command lines."""

from __future__ import annotations

import re
import shlex

import promql_parser

from tests.contract.docs.documents import alerts, code, series, wrong_command, wrong_links, wrong_series
from tests.contract.rules.test_names import wrong_names
from tests.every import every

from .shipped import PAGE, SCALED_OBJECT, TEXT, keda_queries, snippet

QUERIES = keda_queries()


@every(QUERIES)
def test_a_query_is_valid(name):
    assert promql_parser.parse(QUERIES[name])


@every(QUERIES)
def test_every_series_and_label_of_a_query_exists(name):
    """``pod`` is a label that discovery gives the targets in Kubernetes."""
    assert [wrong for wrong in wrong_names(QUERIES[name]) if not wrong.endswith("{pod}")] == []


def test_an_unknown_value_is_an_error_and_not_0():
    """KEDA takes no result as 0 by default, and 0 removes replicas."""
    assert {one["metadata"]["ignoreNullValues"] for one in SCALED_OBJECT["spec"]["triggers"]} == {"false"}


def test_every_trigger_is_explained():
    explained = re.findall(r"^- `([\w-]+)` (?:is|divides)", TEXT, flags=re.MULTILINE)
    assert explained == [*QUERIES]


def test_every_link_leads_somewhere():
    assert list(wrong_links(TEXT, PAGE)) == []


def test_every_series_and_alert_that_the_text_names_exists():
    assert [wrong for name in series(code(TEXT)) for wrong in wrong_series(name)] == []
    assert alerts(code(TEXT)) == set()


def test_the_command_for_the_textfile_collector_is_valid():
    (command,) = re.findall(r"^spec-decode-exporter .*?(?= > )", snippet("sh"), flags=re.MULTILINE)
    assert shlex.split(command)[-2:] == ["--format", "prometheus"]
    assert wrong_command(command) is None
