"""The log of a server with which all is well."""

from collections import Counter

STEADY = "acceptance: {mean: 0.88}\nload: {concurrency: 16}"
SETTLED = 400.0
"""Seconds after which all that is logged once about a server is logged."""


async def drafts(told):
    (line,) = [
        line
        for line in (await told.get("metrics")).splitlines()
        if line.startswith("spec_decode_drafts_total{")
    ]
    return float(line.split()[-1])


async def test_a_healthy_server_logs_nothing_but_summaries_which_a_reload_begins_and_ends(story):
    async with story(STEADY) as told:
        await told.clock.advance(SETTLED + 0.5)
        (watch,) = told.service.fleet
        del told.logs[:]
        before = watch.status().record.polls
        await told.clock.advance(60.0)
        assert told.logs == []
        off, drafted = told.file.read_text(), await drafts(told)
        await told.reload(f"{off}log: {{summary_interval: 10s}}\n")
        told.logs.clear()
        await told.clock.advance(120.0)
        assert watch.status().record.polls - before == 180
        assert Counter(entry["event"] for entry in told.logs) == {"engine_summary": 12}
        drafted = await drafts(told) - drafted
        await told.reload(off)
        await told.clock.advance(60.0)
    summaries = told.told("engine_summary")
    assert len(summaries) == 12
    assert 0.9 * drafted < sum(line["drafts"] for line in summaries) <= drafted, "each is counted once"
    for line in summaries:
        assert 9.5 <= line["seconds"] <= 10.5
        assert line["mean_acceptance_length"] == round(1 + line["accepted_tokens"] / line["drafts"], 4)
