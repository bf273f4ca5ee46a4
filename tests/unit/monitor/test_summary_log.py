"""Summary lines about engines."""

import asyncio

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.monitor.summary_log import SummaryLog

LABELS = {"target": "one", "model_name": "m", "engine": "0", "team": "a"}


@pytest.fixture
def summaries(clock):
    return SummaryLog(60.0, clock, list)


def pages(make_sample, *, tokens=2, begin=0):
    """Samples of an engine that gains 10 drafts of ``tokens``, 7 accepted at position 0 and 3 at the next."""

    def page(n):
        positions = [7 * n, 3 * n, *[0] * (tokens - 2)]
        return make_sample(10 * n, 10 * tokens * n, 10 * n, positions=positions, created=1.0)

    return lambda polls: [page(begin + n) for n in range(polls)]


def test_an_engine_that_drafts_nothing_gets_one_line_and_then_none(summaries, findings_of, make_sample):
    drafting, silent = pages(make_sample)(31), [pages(make_sample)(31)[-1]] * 600
    assert summaries.line(LABELS, findings_of(drafting))["drafts"] == 300
    lines = [summaries.line(LABELS, findings_of(drafting + silent[:more])) for more in (400, 500, 600)]
    assert [line and (line["drafts"], line["state"]) for line in lines] == [(0, "idle"), None, None]
    again = pages(make_sample, begin=31)(2)
    assert summaries.line(LABELS, findings_of(drafting + silent + again))["drafts"] == 20


def test_positions_of_different_k_are_never_mixed(summaries, findings_of, make_sample):
    three = pages(make_sample)(31)
    five = [
        make_sample(10 * n, 50 * n, 5 * n, positions=[5 * n, 0, 0, 0, 0], created=1_790_000_031.5)
        for n in range(1, 40)
    ]
    summaries.line(LABELS, findings_of(three))
    mixed = summaries.line(LABELS, findings_of(three + five[:5]))
    assert (mixed["drafts"], mixed["configured_tokens"]) == (50, 5)
    assert "per_position_acceptance_rate" not in mixed
    last = summaries.line(LABELS, findings_of(three + five))
    assert last["per_position_acceptance_rate"] == [0.5, 0, 0, 0, 0]


async def test_the_log_has_a_line_after_each_interval_without_earlier_counts(clock, findings_of, make_sample):
    page = pages(make_sample)

    def engines():
        yield LABELS, findings_of(page(int(clock.monotonic() - 1000.0) + 1))

    await clock.advance(300.0)
    with capture_logs() as logs:
        task = asyncio.create_task(SummaryLog(10.0, clock, engines).run())
        await clock.advance(9.0)
        assert logs == []
        await clock.advance(21.0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [(log["event"], log["log_level"], log["drafts"]) for log in logs] == [
        ("engine_summary", "info", 100)
    ] * 3
