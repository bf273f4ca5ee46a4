from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from spec_decode_exporter.reports.markdown import markdown_report
from spec_decode_exporter.reports.observe.observe_report import json_report, report
from spec_decode_exporter.reports.terminal import ASCII, UNICODE, TerminalStyle
from spec_decode_exporter.reports.terminal_report import text_report

GOLDEN = Path(__file__).parent / "golden"

SEEN = {
    "steady": {"scenarios": ["steady"]},
    "harmful": {"scenarios": ["harmful"], "seconds": 60},
    "too_short": {"scenarios": ["harmful"]},
    "cost_unknown": {"scenarios": ["ngram"], "cost": False},
    "idle": {"scenarios": ["idle"], "running": 90},
    "fleet": {"scenarios": ["steady", None, "restart"], "seconds": 150, "running": 100},
}


def is_golden(name: str, found: str) -> None:
    """Compare with a golden file; ``UPDATE_GOLDEN=1 pytest tests/reports`` writes it."""
    file = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SEEN)
async def test_the_report_is_the_golden_one(observed, name):
    view = await observed(
        *SEEN[name]["scenarios"], **{k: v for k, v in SEEN[name].items() if k != "scenarios"}
    )
    is_golden(f"{name}.80.txt", text_report(report(view), TerminalStyle(UNICODE, width=80)))


@pytest.mark.parametrize(("width", "glyphs"), [(40, ASCII), (60, UNICODE), (120, UNICODE)])
async def test_the_report_fits_a_terminal_of_any_width(observed, width, glyphs):
    text = text_report(report(await observed("harmful", seconds=60)), TerminalStyle(glyphs, width=width))
    if glyphs is ASCII:
        is_golden(f"harmful.{width}.txt", text)
    assert max(map(len, text.splitlines())) <= width
    assert text.isascii() == (glyphs is ASCII)


async def test_a_terminal_gets_only_colors_in_addition(observed):
    found = report(await observed("steady"))
    is_golden("steady.color.txt", text_report(found, TerminalStyle(color=True)))


async def test_markdown_is_the_golden_one(observed):
    is_golden(
        "fleet.md",
        markdown_report(report(await observed("steady", None, "harmful", seconds=60)), TerminalStyle()),
    )


async def test_json_is_the_document(observed):
    view = await observed("steady", None)
    assert json.loads(json_report(view)) == view.model_dump(mode="json")
    line = json_report(view, indented=False)
    assert line.count("\n") == 1
    assert json.loads(line) == json.loads(json_report(view))


def test_the_sample_in_the_documentation_is_of_the_golden_report():
    page = (Path(__file__).parents[3] / "docs" / "guide" / "observe.md").read_text(encoding="utf-8")
    sample = page.partition("```text\n")[2].partition("```")[0].splitlines()
    assert len(sample) > 10
    assert [
        line
        for line in sample
        if line not in (GOLDEN / "harmful.80.txt").read_text(encoding="utf-8").splitlines()
    ] == []
