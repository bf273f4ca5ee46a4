"""The log of a server with which all is well."""

from __future__ import annotations

from collections import Counter

STEADY = "acceptance: {mean: 0.88}\nload: {concurrency: 16}"
SETTLED = 420.0
"""Seconds after which all that is logged once about a server is logged."""


def polls(told):
    (watch,) = told.service.fleet
    return watch.status().record.polls


async def test_a_healthy_server_logs_nothing_but_summaries_which_count_each_draft_once(story):
    async with story(STEADY, config="log: {summary_interval: 10s}") as told:
        await told.clock.advance(SETTLED + 0.5)
        before = polls(told)
        place = len(told.logs)
        await told.clock.advance(180.0)
        assert polls(told) - before == 180
        assert Counter(entry["event"] for entry in told.logs[place:]) == {"engine_summary": 18}
        page = await told.get("metrics")
    summaries = told.told("engine_summary")
    assert len(summaries) == 60
    (total,) = [line for line in page.splitlines() if line.startswith("spec_decode_drafts_total{")]
    assert 0 < sum(line["drafts"] for line in summaries) <= float(total.split()[-1])
    assert all(line["seconds"] <= 10.5 for line in summaries)
    for line in summaries:
        assert line["mean_acceptance_length"] == round(1 + line["accepted_tokens"] / line["drafts"], 4)


async def test_without_summaries_nothing_is_logged_until_a_reload_enables_them(story):
    async with story(STEADY) as told:
        await told.clock.advance(SETTLED)
        del told.logs[:]
        await told.clock.advance(60.0)
        assert told.logs == []
        off = told.file.read_text()
        await told.reload(f"{off}log: {{summary_interval: 1m}}\n")
        await told.clock.advance(120.0)
        lines = told.told("engine_summary")
        assert len(lines) == 2
        assert all(58 <= line["seconds"] <= 62 for line in lines)
        await told.reload(off)
        await told.clock.advance(120.0)
        assert len(told.told("engine_summary")) == 2
