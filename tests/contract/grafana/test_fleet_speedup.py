"""The tile of the fleet's speed-up says of how many engines it is, and is grey if these are few, by promtool."""

from __future__ import annotations

import pytest

from tests.contract.rules.shipped import needs

from .shipped import TARGETS, interpolated

pytestmark = needs("promtool")

COLOURED, GREY = (one for one in TARGETS if one.panel["title"] == "Speed-up of the fleet")


def fleet(known, unknown):
    """Return the series of engines with a known cost, twice as fast as without speculation, and of others."""
    series = {}
    for number in range(known + unknown):
        labels = f'job="j", instance="i", model_name="m", target="t", engine="{number}", window="5m"'
        series[f"spec_decode_window_draft_tokens{{{labels}}}"] = 100
        series[f"spec_decode_window_decode_seconds{{{labels}}}"] = 10
        if number < known:
            series[f"spec_decode_estimated_speedup_ratio{{{labels}}}"] = 2
    return series


@pytest.mark.parametrize(
    ("known", "unknown", "coloured"),
    [(1, 14, False), (7, 8, False), (1, 1, True), (15, 0, True), (0, 3, None)],
)
def test_it_has_a_colour_if_the_cost_of_half_of_the_engines_is_known(against, known, unknown, coloured):
    said = {"labels": f'{{known="{known}"}}', "value": 2}
    for target, shown in ((COLOURED, coloured is True), (GREY, coloured is False)):
        expr = interpolated(target.expr).replace('=~"any"', '=~".*"')
        assert not against(expr, fleet(known, unknown), said if shown else None)


def test_only_the_second_is_grey_and_both_say_of_how_many():
    panel = COLOURED.panel
    (grey,) = (
        override["matcher"]["options"]
        for override in panel["fieldConfig"]["overrides"]
        if any(one["id"] == "color" for one in override["properties"])
    )
    assert grey == GREY.target["refId"]
    assert {one.target["legendFormat"] for one in (COLOURED, GREY)} == {
        "of {{known}} engines with a known cost"
    }
