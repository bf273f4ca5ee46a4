"""What is known of speculation, and from whom."""

from __future__ import annotations

import pytest

from exporter.analysis.speculation import Speculation, resolve
from exporter.config.pay_settings import SpeculativeSettings
from exporter.scrape.server_info import ServedSpeculation

SERVED = ServedSpeculation("eagle3", 4, "served/draft")


def test_what_nobody_says_is_unknown():
    assert resolve(None, {}, None) == Speculation("", "", "", None)


@pytest.mark.parametrize(
    ("method", "labels", "served", "expected"),
    [
        ("mtp", {"method": "suffix"}, SERVED, ("mtp", "configured")),
        (None, {"method": "suffix"}, SERVED, ("suffix", "label")),
        (None, {"method": ""}, SERVED, ("eagle3", "server_info")),
        (None, {"team": "a"}, SERVED, ("eagle3", "server_info")),
        (None, {"team": "a"}, ServedSpeculation(tokens=3), ("", "")),
        (None, {}, None, ("", "")),
    ],
)
def test_the_method_is_the_surest_that_is_named_and_the_source_says_by_whom(method, labels, served, expected):
    speculation = resolve(SpeculativeSettings(method=method), labels, served)
    assert (speculation.method, speculation.source) == expected


def test_each_field_is_resolved_for_itself():
    speculation = resolve(SpeculativeSettings(tokens=6), {"method": "mtp"}, SERVED)
    assert speculation == Speculation("mtp", "label", "served/draft", 6)
    speculation = resolve(SpeculativeSettings(draft_model="mine"), {}, SERVED)
    assert speculation == Speculation("eagle3", "server_info", "mine", 4)
