from __future__ import annotations

import re

import pytest

from spec_decode_exporter.core.number_formats import ABSENT
from spec_decode_exporter.reports.observe.engine_sections import quantile
from spec_decode_exporter.reports.observe.observe_report import report
from spec_decode_exporter.reports.terminal import UNICODE, Paint
from spec_decode_exporter.reports.terminal_report import text_report
from spec_decode_exporter.views.models import BucketView


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


def test_an_absent_quantile_is_a_dash():
    assert quantile(None, None) == ABSENT


async def test_speculation_that_is_enabled_is_compared_with_the_time_before(observed):
    view = await observed("enable", running=180, seconds=240, cost=False)
    (engine,) = view.engines
    assert engine.baseline.name == "119 s without speculation on 21 September"
    text = text_report(report(view), Paint(UNICODE, width=120))
    assert re.search(f"baseline +{engine.baseline.name}", text)
    assert f"It is as measured against {engine.baseline.name}." in text
