"""Time as it should not be: clocks that are set, a machine that was asleep, an event loop that was held up."""

import asyncio
import gc

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.service.conftest import story

LIGHT = "load: {rate: 2}"
HOUR = 3600.0
NEITHER = ("engine_reset", "target_failing", "acceptance_dropped", "poll_crashed", "task_died")
"""What the log must say nothing of: to the servers, nothing happened."""


async def page(told):
    families = text_string_to_metric_families(await told.get("metrics"))
    return {
        (sample.name, sample.labels.get("window", "")): sample.value
        for family in families
        for sample in family.samples
        if sample.labels.get("target") == "one"
    }


async def test_a_changed_wall_clock_affects_only_reported_times(tmp_path, clock, network):
    pages, jumps = [], (HOUR, -30 * 24 * HOUR, 0.7, 60 * 24 * HOUR, -2 * HOUR, -1.4)
    for by in (dict.fromkeys(jumps, 0.0), dict(zip(jumps, jumps, strict=True))):
        async with story(tmp_path, clock, network, LIGHT) as told:
            await told.clock.advance(60.0)
            for jump in jumps:
                told.clock.offset += by[jump]
                await told.clock.advance(10.0)
            pages.append(await page(told))
            # A server's page has times on it, each with as many digits as it needs.
            del pages[-1]["spec_decode_exporter_poll_bytes", ""]
            assert told.told(*NEITHER) == []
    last = [each.pop(("spec_decode_exporter_last_success_timestamp_seconds", "")) for each in pages]
    assert last[1] == pytest.approx(last[0] + sum(jumps))
    assert pages[0] == pages[1]


async def test_a_machine_that_was_asleep_shows_a_gap_and_asks_once(tmp_path, clock, network):
    async with story(tmp_path, clock, network, LIGHT) as told:
        await told.clock.advance(60.0)
        before = await page(told)
        told.clock.now += 600.0  # no timer runs while a machine is suspended
        await told.clock.advance(3.0)
        after = await page(told)
        assert told.told(*NEITHER) == []
    name = ("spec_decode_exporter_polls_total", "")
    assert after[name] - before[name] <= 4
    # All that was counted during this time is in the totals, and in no window as if it were of now.
    gained = after["spec_decode_drafts_total", ""] - before["spec_decode_drafts_total", ""]
    usual = before["spec_decode_drafts_total", ""] / 60.0
    assert gained > 300 * usual
    for window in ("30s", "5m"):
        assert after.get(("spec_decode_drafts_per_second", window), 0.0) < 3 * usual


async def test_reloads_leave_nothing_behind(tmp_path, clock, network):
    async with story(tmp_path, clock, network, LIGHT) as told:
        plain, tasks, objects = told.file.read_text(), [], []
        await clock.advance(300.0)  # windows that fill up hold more objects
        for times in (20, 60):
            for number in range(times):
                labels = f"labels: {{release: r{number % 2}}}"
                await told.reload(plain.replace("name: one", f"name: one, {labels}"))
                told.logs.clear()
            await clock.advance(10.0)
            gc.collect()
            tasks.append(len(asyncio.all_tasks()))
            objects.append(len(gc.get_objects()))
        assert tasks[1] == tasks[0]
        assert objects[1] < objects[0] + 54
        assert [watch.status().record.up for watch in told.service.fleet] == [True]
