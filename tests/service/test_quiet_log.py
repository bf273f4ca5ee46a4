"""The log of a server with which all is well."""

from __future__ import annotations

from collections import Counter

STEADY = "acceptance: {mean: 0.88}\nload: {concurrency: 16}"


def _record(told):
    (watch,) = told.service.fleet
    return watch.status().record


async def test_six_hundred_polls_of_a_healthy_server_log_nothing_but_summaries(story):
    async with story(STEADY, config="log: {summary_interval: 10s}") as told:
        await told.clock.advance(420.0)
        del told.logs[:]  # what it is, what it is worth and what to do is said once
        before = _record(told).polls
        await told.clock.advance(600.0)
        after = _record(told)
        assert (after.polls - before, after.up) == (600, True)
        assert Counter(entry["event"] for entry in told.logs) == {"engine_summary": 60}


async def test_without_summaries_they_log_nothing_at_all(story):
    async with story(STEADY) as told:
        await told.clock.advance(400.0)
        del told.logs[:]
        await told.clock.advance(600.0)
        assert told.logs == []


async def test_a_summary_counts_the_drafts_of_its_interval_once(story):
    async with story(STEADY, config="log: {summary_interval: 10s}") as told:
        await told.clock.advance(100.5)
        page = await told.get("metrics")
    summaries = told.told("engine_summary")
    assert len(summaries) == 10
    (total,) = [line for line in page.splitlines() if line.startswith("spec_decode_drafts_total{")]
    assert 0 < sum(line["drafts"] for line in summaries) <= float(total.split()[-1])
    assert all(line["seconds"] <= 10.5 for line in summaries)
    for line in summaries:
        assert line["mean_acceptance_length"] == round(1 + line["accepted_tokens"] / line["drafts"], 4)


async def test_a_reload_changes_how_often_engines_are_summed_up(story, tmp_path):
    async with story(STEADY) as told:
        await told.clock.advance(60.0)
        assert told.told("engine_summary") == []
        file = tmp_path / "exporter.yml"
        off = file.read_text()
        file.write_text(f"{off}log: {{summary_interval: 1m}}\n")
        await told.service.reload()
        await told.clock.advance(180.0)
        lines = told.told("engine_summary")
        assert len(lines) == 3
        assert all(58 <= line["seconds"] <= 62 for line in lines)
        file.write_text(off)
        await told.service.reload()
        await told.clock.advance(180.0)
        assert len(told.told("engine_summary")) == 3
