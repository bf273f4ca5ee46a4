from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.reports.markdown import markdown_report
from spec_decode_exporter.reports.observe.observe_report import json_report, report
from spec_decode_exporter.reports.terminal import ASCII, UNICODE, TerminalStyle
from spec_decode_exporter.reports.terminal_report import text_report
from spec_decode_exporter.requests.request_findings import Effect, RequestFindings
from spec_decode_exporter.views.request_models import RequestsView
from spec_decode_exporter.views.request_view import head, lists
from tests.reports.observe.test_golden import GOLDEN, is_golden
from tests.web.page.mixed_requests import falling_requests, mixed_requests


def view(found):
    return RequestsView(
        time=100.0,
        **head(found),
        **{key: tuple(each) for key, each in lists(found, InternalErrors()).items()},
    )


@pytest.fixture
async def with_requests(observed):
    """Return a function that observes a server and adds its requests."""

    async def observe(found):
        return (await observed("steady")).model_copy(update={"requests": view(found)})

    return observe


async def test_requests_come_after_the_engines(with_requests):
    text = text_report(report(await with_requests(await mixed_requests())), TerminalStyle(UNICODE, width=80))
    is_golden("mixed_requests.80.txt", text[text.index("\nRequests\n") + 1 :])


async def test_a_partial_window_names_the_time_that_it_covers(with_requests):
    """The exporter was young, or its store was full."""
    text = text_report(
        report(await with_requests(await mixed_requests(140.5))), TerminalStyle(UNICODE, width=100)
    )
    (line,) = (line for line in text.splitlines() if " in 5m" in line)
    assert line.endswith(" in 5m, complete for the last 2m18s")


async def test_losing_groups_come_first_and_then_the_largest_gains(with_requests):
    text = text_report(report(await with_requests(await mixed_requests())), TerminalStyle(UNICODE, width=100))
    assert re.findall(r"(\w+), temperature [^:]+: (\w+)", text)[:3] == [
        ("creative", "loses"), ("code", "gains"), ("chat", "gains"),
    ]  # fmt: skip


async def test_a_loss_by_a_typical_cost_alone_is_unclear_with_a_reason(with_requests):
    found = await mixed_requests()
    (losing,) = (each for each in found.windows["5m"].groups if each.effect is Effect.LOSES)
    window = replace(found.windows["5m"], groups=[replace(losing, effect=Effect.UNCLEAR)])
    seen = await with_requests(replace(found, windows={"5m": window}))
    text = " ".join(text_report(report(seen), TerminalStyle()).split())
    assert "unclear (the cost of drafting is only a default); 0.89 times as fast" in text


async def test_the_report_fits_a_terminal_of_any_width(with_requests):
    text = text_report(report(await with_requests(await mixed_requests())), TerminalStyle(ASCII, width=40))
    assert max(map(len, text.splitlines())) <= 40
    assert text.isascii()


async def test_json_has_the_requests_of_the_api(with_requests):
    seen = await with_requests(await mixed_requests())
    assert type(seen).model_validate_json(json_report(seen)) == seen


async def test_untrusted_request_types_are_text(with_requests):
    name = "`|\x1b[31m<b>@you"
    seen = await with_requests(await mixed_requests(request_type=name, model_name=name))
    text, markdown = (
        text_report(report(seen), TerminalStyle()),
        markdown_report(report(seen), TerminalStyle()),
    )
    assert "\x1b" not in text + markdown
    assert "`` `\\|\\x1b[31m<b>@you, temperature 0 ``" in markdown


@pytest.mark.parametrize(("enabled", "says"), [(False, "`requests.ingest`"), (True, "None came lately.")])
async def test_absent_requests_have_a_reason(with_requests, enabled, says):
    text = text_report(report(await with_requests(RequestFindings(enabled=enabled))), TerminalStyle())
    assert says in text[text.index("\nRequests\n") :]


async def test_without_an_exporter_there_is_no_section_of_requests(observed):
    assert "Requests" not in text_report(report(await observed("steady")), TerminalStyle())


def test_every_effect_has_a_place_in_the_order():
    from spec_decode_exporter.reports.observe.request_sections import _TONES

    assert set(_TONES) == set(Effect)


def test_the_sample_in_the_documentation_is_the_golden_report():
    page = (Path(__file__).parents[3] / "docs" / "guide" / "observe.md").read_text(encoding="utf-8")
    assert (GOLDEN / "mixed_requests.80.txt").read_text(encoding="utf-8").rstrip() in page


async def test_acceptance_that_falls_with_the_context_is_a_note_with_a_line_for_each_bucket(with_requests):
    text = " ".join(
        text_report(report(await with_requests(await falling_requests())), TerminalStyle()).split()
    )
    assert re.search(r"a draft gives 2\.\d\d tokens at [\d,]+ prompt tokens, and 1\.\d\d at [\d,]+\.", text)
    assert "prompts up to 4,000 tokens" in text
    assert re.search(r"acceptance length 1\.\d\d \(1\.\d\d to 1\.\d\d\); .* of the prompt cached", text)


async def test_acceptance_that_does_not_fall_has_no_note(with_requests):
    text = text_report(report(await with_requests(await mixed_requests())), TerminalStyle())
    assert "Acceptance falls" not in text
    assert "prompts up to 1,000 tokens" in text
