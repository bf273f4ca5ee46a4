from __future__ import annotations

import re
from collections import Counter

import pytest

from spec_decode_exporter.analysis.drops.drop import DropKind
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.views.models import EventView, TargetView
from spec_decode_exporter.web.page import page_content
from spec_decode_exporter.web.page.fleet_summary import headline, sentence
from spec_decode_exporter.web.page.page_content import content
from spec_decode_exporter.web.page.page_data import PageData, ShownEngine
from spec_decode_exporter.web.page.page_query import PageQuery
from tests.web.page.conftest import changed


def target(name="chat", up=True, error="", engines=1):
    return TargetView(
        target=name, address="vllm:8000/metrics", labels={"target": name}, discovery="static", up=up, error=error,
        engine_kind="vllm", front_end="python", page="whole", version="0.32.0", polls=9, poll_failures={},
        poll_seconds=None, poll_bytes=None, poll_interval_seconds=1.0, last_success_timestamp_seconds=90.0,
        engines_on_page=engines if up else None, engines=(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("standings", "says"),
    [
        ({}, "No engine was seen yet."),
        ({State.IDLE: 3}, "No engine drafts anything now."),
        ({Verdict.INSUFFICIENT: 2}, "Too early to say whether speculation pays."),
        ({Verdict.HEALTHY: 1, State.DISABLED: 2}, "Speculation pays."),
        ({Verdict.HARMFUL: 1}, "Speculation hardly pays, if at all."),
        ({Verdict.MARGINAL: 1, Verdict.OPTIMAL: 2}, "Speculation pays on all 3 engines that draft."),
        (
            {Verdict.OPTIMAL: 2, Verdict.POOR: 1, Verdict.INSUFFICIENT: 1},
            "Speculation pays on 2 of the 4 engines that draft; hardly or not at all on 1, too early to say on 1.",
        ),
        (
            {Verdict.HEALTHY: 2, Verdict.UNCLEAR: 2},
            "Speculation pays on 2 of the 4 engines that draft; depending on an unknown cost on 2.",
        ),
        (
            {Verdict.HEALTHY: 1, Verdict.UNCLEAR: 14},
            "Whether speculation pays depends on an unknown cost on 14 of the 15 engines that draft; it pays on 1.",
        ),
        (
            {Verdict.HEALTHY: 1, Verdict.POOR: 2, Verdict.UNCLEAR: 4},
            "Whether speculation pays depends on an unknown cost on 4 of the 7 engines that draft; it pays on 1, hardly or not at all on 2.",
        ),
        (
            {Verdict.HARMFUL: 1, Verdict.UNCLEAR: 2},
            "Whether speculation pays depends on an unknown cost on 2 of the 3 engines that draft; it hardly pays on 1.",
        ),
    ],
)
def test_the_fleet_is_summarized_in_a_sentence(standings, says):
    assert sentence(Counter(standings)) == says


@pytest.mark.parametrize(
    ("standings", "dropped", "says"),
    [
        ({Verdict.OPTIMAL: 1}, 0, "Speculation pays."),
        (
            {Verdict.INSUFFICIENT: 1},
            1,
            "Acceptance has dropped. Too early to say whether speculation pays.",
        ),
        (
            {Verdict.OPTIMAL: 3},
            2,
            "Acceptance has dropped on 2 engines. Speculation pays on all 3 engines that draft.",
        ),
    ],
)
def test_a_present_drop_comes_first_in_the_headline(standings, dropped, says):
    assert headline(Counter(standings), dropped) == says


async def test_targets_that_are_down_come_first_with_their_error():
    targets = [target("up"), *(target(f"down-{number}", up=False, error="refused") for number in range(4))]
    html = await content(PageQuery(), PageData(100.0, iter(()), targets, ()))
    assert "4 targets are down." in html
    assert "… and 1 more, below" in html
    table = html[html.index('class="targets"') :]
    assert table.index("down-0") < table.index("<bdi>up</bdi>")
    assert "last answered" in table


async def test_targets_that_are_down_and_without_engine_are_counted_apart():
    targets = [target("a", up=False, error="refused"), target("b", engines=0), target("c", engines=0)]
    html = await content(PageQuery(), PageData(100.0, iter(()), targets, ()))
    assert "1 target is down, 2 targets have no engine." in html


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


async def test_events_of_an_open_engine_are_shown_once(engines):
    view = engines[0].view
    events = [
        EventView(
            id=f"1-{number}", time=90.0, type="engine_found", bad=False, target=name, model_name=view.model_name,
            engine="0", engine_id=id_, fields={"kind": "vllm"},
        )
        for number, (name, id_) in enumerate([(view.target, view.id), ("other", "f00")])
    ]  # fmt: skip
    html = await content(PageQuery("", (view.id,)), PageData(100.0, iter(engines), [target()], events))
    assert html.count('data-key="1-0"') == html.count('data-key="1-1"') == 1
    assert html.index('data-key="1-0"') < html.index('id="events-title"') < html.index('data-key="1-1"')
    assert "Events of an open engine are in its panel." in html
    closed = await content(PageQuery(), PageData(100.0, iter(engines), [target()], events))
    assert closed.count('data-key="1-0"') == 1
    assert "are in its panel" not in closed


async def test_an_open_engine_names_its_baseline(engines):
    drafting, plain = (each.view for each in engines)
    assert drafting.baseline is None
    assert plain.baseline.name.startswith("5 min without speculation")
    shown = drafting.model_copy(update={"baseline": plain.baseline})
    for view, number in ((drafting, 0), (shown, 1)):
        page = PageData(100.0, iter([ShownEngine(view, None)]), [target()], ())
        html = await content(PageQuery("", (view.id,)), page)
        assert html.count(f"Baseline: {plain.baseline.name}.") == number


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


async def test_an_unreachable_engine_has_a_row_without_numbers(engines):
    gone = engines[0].view.model_copy(update={"windows": (), "state": State.UNREACHABLE})
    html = await content(
        PageQuery("", (gone.id,)), PageData(100.0, iter([ShownEngine(gone, None)]), [target()], ())
    )
    assert "Unreachable" in html
    assert "Since the exporter first saw the engine" in html


class Counted(list):
    """Events that count their iterations."""

    readings = 0

    def __iter__(self):
        self.readings += 1
        return super().__iter__()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("verdict=optimal", [1]),
        ('verdict="too early"', [2]),
        ("early", [2]),
        ("state=off", [3]),
        ('"dropped now"', [1]),
        ("dropped=slow", [1]),
        ('Team="a b"', [2]),
        ('action="is best"', [1, 2]),
    ],
)
async def test_the_filter_matches_the_shown_words(engines, text, found):
    chat, off = engines
    both = dict.fromkeys(DropKind, True)
    drops = chat.view.drops.model_copy(update={"dropped": both})
    shown = [
        changed(chat, id="1", verdict=Verdict.OPTIMAL, drops=drops, recommended_tokens=4, configured_tokens=4),
        changed(chat, id="2", verdict=Verdict.INSUFFICIENT, labels={"Team": "A b"}, recommended_tokens=4,
                configured_tokens=4),
        changed(off, id="3"),
    ]  # fmt: skip
    html = await content(PageQuery(text), PageData(100.0, iter(shown), [target()], ()))
    assert re.findall('<tbody id="e-(.)"', html) == [str(each) for each in found]


async def test_an_unknown_engine_in_the_address_has_a_notice(engines):
    asked = PageQuery("", (engines[0].view.id, "<gone>"))
    html = await content(asked, PageData(100.0, iter(engines), [target()], ()))
    assert "There is no engine <q><bdi>&lt;gone&gt;</bdi></q>" in html
    assert html.count("There is no engine") == 1
    assert f'href="./?engine={engines[0].view.id}" class="chip">Close' in html


async def test_alarming_engines_come_first(engines, monkeypatch):
    monkeypatch.setattr(page_content, "MAX_ROWS", 3)
    chat = engines[0]
    slow = chat.view.drops.model_copy(update={"dropped": {DropKind.SLOW: True}})
    fine = [changed(chat, id=f"fine{number}") for number in range(9)]
    shown = [
        *fine[:8],
        changed(chat, id="harmful", verdict=Verdict.HARMFUL),
        fine[8],
        changed(chat, id="dropped", drops=slow),
    ]
    html = await content(PageQuery("", ("fine7",)), PageData(100.0, iter(shown), [target()], ()))
    assert re.findall('<tbody id="e-([^"]+)"', html) == ["harmful", "dropped", "fine0", "fine7"]
