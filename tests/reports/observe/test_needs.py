from __future__ import annotations

import re

from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.findings.finding import Severity
from spec_decode_exporter.reports.observe.needs import needs
from spec_decode_exporter.views.engine_view import FindingView


def texts(view):
    (engine,) = view.engines
    return " ".join(note.text for note in needs(engine, view.seconds))


async def test_the_advised_length_suffices_for_enough_requests(observed):
    found = re.search(r"--for (\d+)m$", texts(await observed("harmful", seconds=30)).rstrip("."))
    assert found
    assert not texts(await observed("harmful", seconds=60 * int(found[1])))


async def test_too_few_drafts_name_the_missing_number(observed):
    view = await observed("steady", seconds=30)
    values = {"drafts": 40.0, "threshold": 100.0}
    few = FindingView(name="few_drafts", severity=Severity.INFO, values=values, text="")
    engine = view.engines[0].model_copy(update={"findings": (few,), "verdict": Verdict.INSUFFICIENT})
    text = texts(view.model_copy(update={"engines": (engine,)}))
    assert text == "40 drafts; a verdict takes 100, which is 60 more. At this rate that takes --for 1m30s."


async def test_a_server_without_speculation_needs_a_configuration(observed):
    assert "--speculative-config" in texts(await observed("off", running=220))


async def test_a_partial_observation_advises_to_repeat_it(observed):
    text = texts(await observed("restart", seconds=60, running=100))
    assert "of 60 s" in text
    assert "advice 85 % of it" in text
