"""Section of the page about experiments."""

from __future__ import annotations

import pytest

from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.experiments.arm import SpeedupBasis
from spec_decode_exporter.experiments.traffic import Traffic
from spec_decode_exporter.views.fleet_view import (
    ArmFirstTokenView,
    ArmSpeedupView,
    ArmView,
    ArmWindowView,
    ExperimentView,
)
from spec_decode_exporter.web.page.experiment_panel import experiments

TIME = SpeedupBasis.TIME_PER_OUTPUT_TOKEN
CLEAR = ArmSpeedupView(value=2.0, lower=1.8, upper=2.2)


def arm(name, *, engines=2, traffic=None, speedup=None, wins=False):
    window = ArmWindowView(
        window="5m",
        engines=engines,
        requests=1300,
        acceptance_length_tokens=2.5,
        time_to_first_token_seconds=ArmFirstTokenView(mean=0.2, p50=None, p95=None),
        prefix_cache_hit_ratio=None,
        traffic_ratio=traffic or {},
        speedup_ratio={} if speedup is None else {TIME: speedup},
    )
    return ArmView(arm=name, winner={TIME: wins}, windows=(window,))


def shown(*arms):
    view = ExperimentView(experiment="drafter", baseline="off", arms=(arm("off"), *arms))
    return experiments([view], Isolation())


def test_arms_are_side_by_side_with_bounds_and_the_winner():
    html = shown(arm("eagle", speedup=CLEAR, wins=True))
    assert html.index("<bdi>off</bdi>") < html.index("<bdi>eagle</bdi>")
    assert "baseline</small>" in html
    assert "winner</span>" in html
    assert "1.80" in html
    assert "2.20" in html
    assert "<strong>Winner: </strong><bdi>eagle</bdi> is the fastest by time per output token." in html


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (arm("eagle", engines=0), "has no engine"),
        (arm("eagle", traffic={Traffic.LOAD: 0.72}, speedup=ArmSpeedupView(value=1.2, lower=0.8, upper=1.3, reason=Traffic.LOAD)), "may owe its speed to its traffic: its load is 0.72\u00d7 the baseline&#x27;s; balance the arms by round robin"),
        (arm("eagle", traffic={Traffic.REQUEST_TYPES: None}, speedup=ArmSpeedupView(value=1.2, reason=Traffic.REQUEST_TYPES)), "may owe its speed to its traffic: its time by its mix of request types has an unknown ratio to the baseline&#x27;s; balance the arms by round robin"),
        (arm("eagle"), "has no speed-up yet: too little data in it or in the baseline"),
        (arm("eagle", speedup=ArmSpeedupView(value=2.0, lower=None, upper=None)), "has no bounds yet: too few requests"),
        (arm("eagle", speedup=ArmSpeedupView(value=1.1, lower=0.9, upper=1.3)), "is neither faster nor slower, statistically significant (95 %)"),
        (arm("eagle", speedup=CLEAR), "needs the same result for a whole longest window"),
    ],
)  # fmt: skip
def test_without_a_winner_the_reason_is_named(other, reason):
    html = shown(other)
    assert f"<strong>No winner: </strong><bdi>eagle</bdi> {reason}." in html
    assert "winner</span>" not in html
