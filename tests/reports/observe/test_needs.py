from __future__ import annotations

import re

from spec_decode_exporter.analysis.finding import FindingName, Severity
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.reports.observe.needs import needs
from spec_decode_exporter.views.models import FindingView


def said(view):
    (engine,) = view.engines
    return " ".join(note.text for note in needs(engine, view.seconds))


async def test_nothing_is_missing_where_there_is_a_verdict_and_advice(observed):
    assert not said(await observed("steady"))


async def test_the_time_that_more_requests_would_take_is_enough(observed):
    found = re.search(r"--for (\d+)m$", said(await observed("harmful", seconds=30)).rstrip("."))
    assert found
    assert not said(await observed("harmful", seconds=60 * int(found[1])))


async def test_of_few_drafts_it_says_how_many_more(observed):
    view = await observed("steady", seconds=30)
    values = {"drafts": 40.0, "threshold": 100.0}
    few = FindingView(name=FindingName.FEW_DRAFTS, severity=Severity.INFO, values=values, text="")
    engine = view.engines[0].model_copy(update={"findings": (few,), "verdict": Verdict.INSUFFICIENT})
    text = said(view.model_copy(update={"engines": (engine,)}))
    assert text == "40 drafts; a verdict takes 100, which is 60 more. At this rate that takes --for 1m30s."


async def test_an_idle_server_needs_traffic(observed):
    assert "No request ran" in said(await observed("idle", running=90))


async def test_a_server_without_speculation_needs_it(observed):
    assert "--speculative-config" in said(await observed("off", running=220))


async def test_a_server_that_was_away_is_observed_again(observed):
    text = said(await observed("restart", seconds=60, running=100))
    assert "of 60 s" in text
    assert "advice 85 % of it" in text
