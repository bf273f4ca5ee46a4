"""Results of the engine dashboard's queries, by promtool."""

from __future__ import annotations

import pytest

from tests.rules.shipped import needs

from .shipped import TARGETS, interpolated

pytestmark = needs("promtool")

LABELS = 'job="j", instance="i", model_name="m", target="t", engine="0", window="5m"'


def shares():
    """Return the expression of each bar by its name."""
    return {
        one.target["legendFormat"]: interpolated(one.expr).replace('=~"any"', '=~".*"')
        for one in TARGETS
        if one.panel["title"] == "Accepted tokens of a draft"
    }


def reached(*values):
    """Return the series of the share of drafts that are accepted up to each position."""
    return {
        f'spec_decode_position_acceptance_ratio{{{LABELS}, position="{place}"}}': value
        for place, value in enumerate(values)
    }


@pytest.mark.parametrize(("name", "share"), [("0", 0.25), ("1", 0.25), ("2", 0.375), ("3", 0.125)])
def test_of_drafts_of_three_tokens_each_has_one_accepted_length(against, name, share):
    assert not against(shares()[name], reached(0.75, 0.5, 0.125), {"labels": "{}", "value": share})


def test_a_length_beyond_the_draft_has_no_bar(against):
    series = reached(0.75, 0.5, 0.125)
    assert not against(shares()["4"], series, None)
    assert against(shares()["3"], series, None), "promtool finds the one that is there"


def test_the_last_bar_is_all_longer_ones(against):
    series = reached(*[1.0] * 7, 0.5, 0.25, 0.125)
    assert not against(shares()["7"], series, {"labels": "{}", "value": 0.5})
    assert not against(shares()["8 or more"], series, {"labels": "{}", "value": 0.5})


def test_the_bars_are_in_the_order_of_lengths():
    assert list(shares()) == [*"01234567", "8 or more"]
