"""Results of the queries about requests, by promtool."""

from __future__ import annotations

import pytest

from tests.contract.rules.shipped import needs

from .shipped import TARGETS, interpolated

pytestmark = needs("promtool")

LABELS = 'job="any", instance="any", model_name="any", temperature="0", window="5m"'
SHARES = {"ngram": (1.0, 10), "chat": (0.0, 100)}
"""By type: which share loses, and of how many requests. Of a hundred of the first kind ten drafted."""


def test_the_share_below_break_even_is_of_the_requests_of_which_it_is_known(against):
    """Ten of 110, as of the model; by all requests it would be a half."""
    series = {}
    for kind, (share, evaluated) in SHARES.items():
        labels = f'{{{LABELS}, request_type="{kind}"}}'
        series[f"spec_decode_requests_below_break_even_ratio{labels}"] = share
        series[f"spec_decode_window_evaluated_requests{labels}"] = evaluated
        series[f"spec_decode_window_requests{labels}"] = 100
    unknown = f'{{{LABELS}, request_type="without"}}'
    series[f"spec_decode_window_evaluated_requests{unknown}"] = 0
    series[f"spec_decode_window_requests{unknown}"] = 100
    (tile,) = (one for one in TARGETS if one.panel["title"] == "Below break-even")
    expr = interpolated(tile.expr).replace('=~"any"', '=~".*"')
    said = against(expr, series, {"labels": "{}", "value": 10 / 110})
    assert not said


def _effects(kind, effect):
    """Return the series of requests that may be 0.91 times as fast, as they are where their effect is this one."""
    labels = f'{LABELS}, request_type="{kind}"'
    return {
        f"spec_decode_request_speedup_ratio{{{labels}}}": 0.91,
        f"spec_decode_request_speedup_ratio_lower{{{labels}}}": 0.90,
        f"spec_decode_request_speedup_ratio_upper{{{labels}}}": 0.92,
        **{
            f'spec_decode_request_effect{{{labels}, effect="{each}"}}': int(each == effect)
            for each in ("gains", "loses", "unclear")
        },
    }


@pytest.mark.parametrize(("effect", "number", "losing"), [("unclear", 0, 0), ("loses", 2, 1)])
def test_losing_kinds_are_shown_by_the_effect_and_not_by_the_bounds(against, effect, number, losing):
    """By a guess of what drafting costs the page calls it unclear, though both bounds are below 1."""
    series = _effects("chat", effect)
    (tile,) = (one for one in TARGETS if one.panel["title"] == "Kinds that lose")
    (column,) = (one for one in TARGETS if "request_effect" in one.expr and one is not tile)
    key = '{instance="any", model_name="any", request_type="chat", temperature="0"}'
    for target, expected in (
        (tile, {"labels": "{}", "value": losing}),
        (column, {"labels": key, "value": number}),
    ):
        expr = interpolated(target.expr).replace('=~"any"', '=~".*"')
        assert not against(expr, series, expected)
