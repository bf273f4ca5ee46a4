from __future__ import annotations

import re

import pytest

from spec_decode_exporter.core.number_formats import ABSENT
from spec_decode_exporter.reports.observe.engine_sections import engine_sections, quantile
from spec_decode_exporter.reports.observe.observe_report import report
from spec_decode_exporter.reports.parts import Figure
from spec_decode_exporter.reports.terminal import UNICODE, TerminalStyle
from spec_decode_exporter.reports.terminal_report import text_report
from spec_decode_exporter.views.engine_view import BucketView


@pytest.mark.parametrize(
    ("value", "lower", "upper", "written"),
    [
        (0.0281, 0.025, 0.03, "28.1 ms"),
        (0.0281, 0.025, 0.05, "25 to 50 ms"),
        (0.15, 0.0, 0.3, "< 300 ms"),
        (0.9, 0.3, 1.0, "0.3 to 1 s"),
        (2560.0, 2560.0, None, "> 2,560 s"),
        (0.5, 0.5, None, "> 500 ms"),
    ],
)
def test_a_quantile_has_no_more_digits_than_its_bucket_allows(value, lower, upper, written):
    assert quantile(value, BucketView(lower=lower, upper=upper)) == written


class TestWholeRequests:
    @pytest.fixture(name="engine")
    async def engine_fixture(self, observed):
        (engine,) = (await observed("steady", seconds=30)).engines
        return engine

    @staticmethod
    def lines(engine):
        parts = [part for section in engine_sections(engine) for part in section.parts]
        return {(part.name, part.meaning): part for part in parts if isinstance(part, Figure)}

    def test_without_it_the_gain_is_that_of_decoding_only(self, engine):
        last = engine.windows[-1].model_copy(update={"end_to_end_speedup_ratio": None})
        names = {name for name, _ in self.lines(engine.model_copy(update={"windows": (last,)}))}
        assert "speed-up, decode only" in names
        assert not names & {"speed-up, request", "speed-up, decoding"}


class TestLoads:
    @staticmethod
    def parts(engine):
        titles = {section.title: section.parts for section in engine_sections(engine)}
        return titles["Speed-up by load"]

    async def test_a_pause_without_acceptance_has_what_to_measure(self, observed):
        (engine,) = (await observed("steady")).engines
        setting = engine.setting.model_copy(
            update={"bands": (), "paused_from": 8, "measure": "Let it draft."}
        )
        (note,) = self.parts(engine.model_copy(update={"setting": setting}))
        assert note.text == "Let it draft."
        drafting = setting.model_copy(update={"paused_from": None})
        assert self.parts(engine.model_copy(update={"setting": drafting})) == ()


def test_an_absent_quantile_is_a_dash():
    assert quantile(None, None) == ABSENT


async def test_speculation_that_is_enabled_is_compared_with_the_time_before(observed):
    view = await observed("enable", running=180, seconds=240, cost=False)
    (engine,) = view.engines
    assert engine.baseline.name == "119 s without speculation on 21 September"
    text = text_report(report(view), TerminalStyle(UNICODE, width=120))
    assert re.search(f"baseline +{engine.baseline.name}", text)
    assert f"It is as measured against {engine.baseline.name}." in text
