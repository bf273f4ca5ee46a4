"""The log of a server with which all is well."""

from collections import Counter

from tests.service.conftest import story

STEADY = "acceptance: {mean: 0.88}\nload: {concurrency: 16}"
SETTLED = 400.0  # seconds after which all that is logged once about a server is logged


async def test_a_healthy_server_logs_nothing_but_summaries_which_a_reload_begins_and_ends(
    tmp_path, clock, network
):
    async with story(tmp_path, clock, network, STEADY) as told:
        await told.clock.advance(SETTLED + 0.5)
        (watch,) = told.service.fleet
        del told.logs[:]
        before = watch.status().record.polls
        await told.clock.advance(60.0)
        assert told.logs == []
        off = told.file.read_text()
        await told.reload(f"{off}log: {{summary_interval: 10s}}\n")
        told.logs.clear()
        await told.clock.advance(120.0)
        assert watch.status().record.polls - before == 180
        assert Counter(entry["event"] for entry in told.logs) == {"engine_summary": 12}
        await told.reload(off)
        await told.clock.advance(60.0)
    summaries = told.told("engine_summary")
    assert len(summaries) == 12
    for line in summaries:
        assert line["window"] == "5m"
        assert 290 <= line["seconds"] <= 300
        assert line["mean_acceptance_length"] == round(1 + line["accepted_tokens"] / line["drafts"], 4)
