from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.analysis.state import State
from exporter.analysis.verdict import Verdict
from exporter.export.models import TargetView
from exporter.web.page import content as page_content
from exporter.web.page.content import content
from exporter.web.page.data import PageData, ShownEngine
from exporter.web.page.query import Query
from exporter.web.page.summary import sentence
from tests.e2e.faster_clock import Server
from tests.e2e.moved_fleet import moved_fleet
from tests.web.page.test_markup import Reading

TOLD = {"cost": {"draft_cost_ratio": 0.08}, "speculative": {"method": "eagle3"}}


def target(name="chat", up=True, error=""):
    return TargetView(
        target=name, address="vllm:8000/metrics", labels={"target": name}, discovery="static", up=up, error=error,
        engine_kind="vllm", front_end="python", page="full", version="0.32.0", polls=9, poll_failures={},
        poll_seconds=None, poll_bytes=None, poll_interval_seconds=1.0, last_success_timestamp_seconds=90.0,
        engines=(),
    )  # fmt: skip


async def watched():
    servers = [Server("chat", told=TOLD), Server("off", changes={"speculation": {"tokens": 0}})]
    async with moved_fleet(servers) as fleet:
        await fleet.advance(310)
        await fleet.state.prepare()
        return list(fleet.state.page().engines)


@pytest.fixture(scope="module")
def engines():
    """An engine that drafts, and one that does not."""
    return asyncio.run(watched())


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
    ],
)
def test_the_fleet_is_summed_up_in_a_sentence(standings, says):
    assert sentence(Counter(standings)) == says


async def test_without_any_target_it_says_what_to_do():
    html = await content(Query(), PageData(100.0, iter(()), (), ()))
    assert "spec-decode-exporter --target http://localhost:8000/metrics" in html
    assert 'id="filter"' not in html


async def test_targets_that_are_down_come_first_and_say_why():
    targets = [target("up"), *(target(f"down-{number}", up=False, error="refused") for number in range(4))]
    html = await content(Query(), PageData(100.0, iter(()), targets, ()))
    assert "4 targets are down." in html
    assert "… and 1 more, below" in html
    table = html[html.index('class="targets"') :]
    assert table.index("down-0") < table.index("<bdi>up</bdi>")
    assert "last answered" in table


async def test_only_the_engines_that_are_open_are_shown_whole(engines):
    page = PageData(100.0, iter(engines), [target()], ())
    closed = await content(Query(), page)
    assert closed.count('class="panel"') == 0
    chat = engines[0].view.id
    opened = await content(Query("", (chat,)), PageData(100.0, iter(engines), [target()], ()))
    assert opened.count('class="panel"') == 1
    assert f'href="./?engine={chat}#e-{chat}"' in closed
    assert 'aria-expanded="true"' in opened


async def test_a_filter_leaves_the_counts_of_the_whole_fleet(engines):
    html = await content(Query("method=eagle3"), PageData(100.0, iter(engines), [target()], ()))
    assert html.count('class="engine"') == 1
    assert "1 of 2</output>" in html
    assert "Speculation pays." in html


async def test_of_a_large_fleet_so_many_are_shown(engines, monkeypatch):
    monkeypatch.setattr(page_content, "MOST_ROWS", 3)
    html = await content(Query(), PageData(100.0, iter(engines * 4), [target()], ()))
    assert html.count('class="engine"') == 3
    assert "8, the first 3 shown" in html


async def test_an_engine_that_is_gone_has_a_row_without_numbers(engines):
    gone = engines[0].view.model_copy(update={"windows": (), "state": State.UNREACHABLE})
    html = await content(
        Query("", (gone.id,)), PageData(100.0, iter([ShownEngine(gone, None)]), [target()], ())
    )
    assert "Unreachable" in html
    assert "Since the exporter first saw the engine" in html


@settings(max_examples=30)
@given(text=st.text(min_size=1))
async def test_no_name_changes_the_structure_of_the_page(engines, text):
    def shown(name):
        view = engines[0].view
        update = {"model_name": name, "target": name, "method": name, "labels": {name: name, "target": name}}
        return ShownEngine(view.model_copy(update=update), engines[0].trace)

    async def elements(name):
        page = PageData(100.0, iter([shown(name)]), [target(name, up=False, error=name)], ())
        return Reading(await content(Query("", (engines[0].view.id,)), page)).elements

    assert await elements(text) == await elements("plain" if text != "target" else text)
