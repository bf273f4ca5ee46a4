"""Series, commands, requests and alerts in the documents exist."""

from __future__ import annotations

import re

import pytest

from spec_decode_exporter.findings.findings import NAMES
from tests.every import every

from .documents import (
    DOCS,
    alerts,
    blocks,
    code,
    commands,
    series,
    wrong_command,
    wrong_field,
    wrong_request,
    wrong_series,
)

TEXTS = {
    path.relative_to(DOCS.parent).as_posix(): path.read_text(encoding="utf-8")
    for path in (
        DOCS.parent / "README.md",
        *(
            path
            for part in ("guide", "explanation", "runbooks")
            for path in sorted((DOCS / part).glob("*.md"))
        ),
    )
}
SELECTOR = re.compile(r'spec_decode_\w+(\{(\w+="[^"…]*",? ?)+\})?')
"""A series with or without labels; documents also write ``{basis}`` and ``_bucket``, ``_sum`` for several."""


@every(TEXTS)
def test_every_series_label_and_state_exists(name):
    own = [one for one in code(TEXTS[name]) if SELECTOR.fullmatch(one)]
    assert {one: wrong for one in own if (wrong := list(wrong_series(one)))} == {}


@every(TEXTS)
def test_every_command_is_valid(name):
    lines = [line for line in commands(TEXTS[name]) if line.startswith("spec-decode-exporter")]
    assert {line: error for line in lines if (error := wrong_command(line))} == {}


@every(TEXTS)
def test_every_request_to_the_api_and_every_field_of_its_program_exists(name):
    lines = [line for line in commands(TEXTS[name]) if re.match(r"curl (-\S+ )*localhost:7732/api", line)]
    assert {line: wrong for line in lines if (wrong := list(wrong_request(line)))} == {}


@every(TEXTS)
def test_every_field_of_the_api_alert_and_finding_exists(name):
    text = TEXTS[name]
    names = code(text)
    assert alerts(names) == set()
    fields = [one for one in names if re.match(r"(engines|experiments)\[\]\.[\w.\[\]]+$", one)]
    assert [one for one in fields if wrong_field(one)] == []
    assert set(re.findall(r"finding `(\w+)`", text)) <= {*NAMES}


def test_the_documents_have_many_of_each():
    text = "\n".join(TEXTS.values())
    lines = commands(text)
    assert sum(line.startswith("spec-decode-exporter") for line in lines) > 20
    assert sum(line.startswith("curl") for line in lines) > 5
    assert len(series(code(text))) > 100
    assert blocks(text, "promql")


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
        (lambda: alerts(["SpecDecodeSuddenDrop", "SpecDecodeDrop"]), {"SpecDecodeDrop"}),
        (lambda: commands("```console\n$ a \\\n  b > c\n# d\n```"), ["a b", "# d"]),
    ],
)
def test_a_wrong_name_is_found(check, wrong):
    assert check() == wrong
