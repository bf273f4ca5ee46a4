from __future__ import annotations

from collections import Counter

import pytest

from spec_decode_exporter.analysis.verdict import State, Verdict
from spec_decode_exporter.web.page import page_content
from spec_decode_exporter.web.page.fleet_summary import sentence
from spec_decode_exporter.web.page.page_content import content
from spec_decode_exporter.web.page.page_data import PageData, ShownEngine
from spec_decode_exporter.web.page.page_query import PageQuery
from tests.web.api.conftest import target_view


def target(name="chat", up=True, error="", engines=1):
    shown = engines if up else None
    return target_view(name).model_copy(update={"up": up, "error": error, "engines_on_page": shown})


@pytest.mark.parametrize(
    ("standings", "says"),
    [
        ({}, "No engine was seen yet."),
        ({State.IDLE: 3}, "No engine drafts anything now."),
        ({Verdict.INSUFFICIENT: 2}, "Too early to say whether speculation pays."),
        ({Verdict.HEALTHY: 1, State.DISABLED: 2}, "Speculation pays."),
        ({Verdict.HARMFUL: 1}, "Speculation hardly pays, if at all."),
        ({Verdict.MARGINAL: 1, Verdict.OPTIMAL: 2}, "Speculation pays on all 3 engines that draft."),
        ({Verdict.OPTIMAL: 2, Verdict.POOR: 1, Verdict.INSUFFICIENT: 1}, "Speculation pays on 2 of the 4 engines that draft; hardly or not at all on 1, too early to say on 1."),
        ({Verdict.HEALTHY: 2, Verdict.UNCLEAR: 2}, "Speculation pays on 2 of the 4 engines that draft; depending on an unknown cost on 2."),
        ({Verdict.HEALTHY: 1, Verdict.UNCLEAR: 14}, "Whether speculation pays depends on an unknown cost on 14 of the 15 engines that draft; it pays on 1."),
        ({Verdict.HEALTHY: 1, Verdict.POOR: 2, Verdict.UNCLEAR: 4}, "Whether speculation pays depends on an unknown cost on 4 of the 7 engines that draft; it pays on 1, hardly or not at all on 2."),
        ({Verdict.HARMFUL: 1, Verdict.UNCLEAR: 2}, "Whether speculation pays depends on an unknown cost on 2 of the 3 engines that draft; it hardly pays on 1."),
    ],
)  # fmt: skip
def test_the_fleet_is_summarized_in_a_sentence(standings, says):
    assert sentence(Counter(standings)) == says


@pytest.mark.parametrize("problem", ["", "The state file cannot be written: <disk>."])
async def test_a_problem_of_the_exporter_is_a_notice(problem):
    html = await content(PageQuery(), PageData(100.0, iter(()), [target()], (), problem=problem))
    assert ("The state file cannot be written: &lt;disk&gt;." in html) is bool(problem)


async def test_targets_that_are_down_come_first_with_their_error():
    targets = [target("up"), *(target(f"down-{number}", up=False, error="refused") for number in range(4))]
    html = await content(PageQuery(), PageData(100.0, iter(()), targets, ()))
    assert "4 targets are down." in html
    assert "… and 1 more, below" in html
    table = html[html.index('class="targets"') :]
    assert table.index("down-0") < table.index("<bdi>up</bdi>")
    assert "last answered" in table


async def test_only_open_engines_show_details(engines):
    page = PageData(100.0, iter(engines), [target()], ())
    closed = await content(PageQuery(), page)
    assert closed.count('class="panel"') == 0
    chat = engines[0].view.id
    opened = await content(PageQuery("", (chat,)), PageData(100.0, iter(engines), [target()], ()))
    assert opened.count('class="panel"') == 1
    assert '<section class="card wide" data-key="Setting">' in opened
    assert f'href="./?engine={chat}#e-{chat}"' in closed
    assert 'aria-expanded="true"' in opened


async def test_a_filter_keeps_the_counts_of_the_whole_fleet(engines):
    html = await content(PageQuery("method=eagle3"), PageData(100.0, iter(engines), [target()], ()))
    assert html.count('class="engine"') == 1
    assert "1 of 2</output>" in html
    assert "Speculation pays." in html


async def test_the_rows_of_a_large_fleet_are_limited(engines, monkeypatch):
    monkeypatch.setattr(page_content, "MAX_ROWS", 3)
    html = await content(PageQuery(), PageData(100.0, iter(engines * 4), [target()], ()))
    assert html.count('class="engine"') == 3
    assert "8, the first 3 shown" in html


async def test_an_unknown_engine_in_the_address_has_a_notice(engines):
    asked = PageQuery("", (engines[0].view.id, "<gone>"))
    html = await content(asked, PageData(100.0, iter(engines), [target()], ()))
    assert "There is no engine <q><bdi>&lt;gone&gt;</bdi></q>" in html
    assert html.count("There is no engine") == 1
    assert f'href="./?engine={engines[0].view.id}" class="chip">Close' in html


async def test_an_open_engine_names_its_baseline(engines):
    drafting, plain = (each.view for each in engines)
    assert drafting.baseline is None
    assert plain.baseline.name.startswith("5 min without speculation")
    shown = drafting.model_copy(update={"baseline": plain.baseline})
    for view, number in ((drafting, 0), (shown, 1)):
        page = PageData(100.0, iter([ShownEngine(view, None)]), [target()], ())
        html = await content(PageQuery("", (view.id,)), page)
        assert html.count(f"Baseline: {plain.baseline.name}.") == number
        assert ("Requests with and without speculation" in html) == bool(number)


async def test_an_unreachable_engine_has_a_row_without_numbers(engines):
    gone = engines[0].view.model_copy(update={"windows": (), "state": State.UNREACHABLE})
    html = await content(
        PageQuery("", (gone.id,)), PageData(100.0, iter([ShownEngine(gone, None)]), [target()], ())
    )
    assert "Unreachable" in html
    assert "Since the exporter first saw the engine" in html


async def test_an_unclear_engine_shows_what_is_likely(engines):
    text = "Probably pays: about 1.4 times as fast (0.9 to 2.1 by what drafting costs others)."
    unclear = engines[0].view.model_copy(update={"verdict": Verdict.UNCLEAR, "verdict_text": text})
    page = PageData(100.0, iter([ShownEngine(unclear, None)]), [target()], ())
    html = await content(PageQuery("", (unclear.id,)), page)
    assert f"<span>{text}</span>" in html
    assert f'class="verdict unclear" title="{text}"' in html
