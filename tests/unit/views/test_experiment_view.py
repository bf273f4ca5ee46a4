from __future__ import annotations

from spec_decode_exporter.experiments.arm import SpeedupBasis
from spec_decode_exporter.experiments.arm_first_token import ArmFirstToken
from spec_decode_exporter.experiments.arm_speedup import ArmSpeedup
from spec_decode_exporter.experiments.comparability import Condition
from spec_decode_exporter.experiments.experiment import ArmFindings, ArmWindow
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.views.experiment_models import ExperimentView
from spec_decode_exporter.views.experiment_view import experiment_view, experiments_of
from tests.unit.metrics.written_page import families_of


def experiment_views(arms):
    return tuple(experiment_view(*each) for each in experiments_of(arms))


NO_WINS = dict.fromkeys(SpeedupBasis, False)
OFF = ArmFindings((ArmWindow(30.0, 0, None, None), ArmWindow(300.0, 2, 1200, None)), NO_WINS)
EAGLE = ArmFindings(
    (
        ArmWindow(30.0, 1, 12, None, {Condition.REQUESTS: False}),
        ArmWindow(
            300.0,
            1,
            1300,
            2.5,
            {Condition.REQUESTS: True, Condition.LOAD: True},
            {
                SpeedupBasis.TIME_PER_OUTPUT_TOKEN: ArmSpeedup(2.0, Estimate(2.0, 1.8, 2.2, 0.1)),
                SpeedupBasis.END_TO_END: ArmSpeedup(1.9, None),
            },
            ArmFirstToken(0.2, 0.1, 0.5, 0.25),
        ),
    ),
    NO_WINS | {SpeedupBasis.TIME_PER_OUTPUT_TOKEN: True},
)
ARMS = [
    ({"experiment": "drafter", "arm": arm, "baseline": "off"}, findings)
    for arm, findings in (("off", OFF), ("eagle", EAGLE))
]


def samples():
    return {
        (sample.name.removeprefix("spec_decode_experiment_"), *sample.labels.values()): sample.value
        for family in families_of(Snapshot(experiments=ARMS))
        for sample in family.samples
    }


def test_a_page_has_exactly_the_known_values():
    off, eagle = ("drafter", "off", "off"), ("drafter", "eagle", "off")
    assert samples() == {
        ("speedup_ratio", *eagle, "5m", "time_per_output_token"): 2.0,
        ("speedup_ratio", *eagle, "5m", "end_to_end"): 1.9,
        ("speedup_ratio_lower", *eagle, "5m", "time_per_output_token"): 1.8,
        ("speedup_ratio_upper", *eagle, "5m", "time_per_output_token"): 2.2,
        ("comparable", *eagle, "30s", "requests"): 0.0,
        ("comparable", *eagle, "5m", "requests"): 1.0,
        ("comparable", *eagle, "5m", "load"): 1.0,
        **{("winner", *off, str(basis)): 0.0 for basis in SpeedupBasis},
        **{
            ("winner", *eagle, str(basis)): float(basis is SpeedupBasis.TIME_PER_OUTPUT_TOKEN)
            for basis in SpeedupBasis
        },
        ("acceptance_length_tokens", *eagle, "5m"): 2.5,
        ("requests", *off, "5m"): 1200.0,
        ("requests", *eagle, "30s"): 12.0,
        ("requests", *eagle, "5m"): 1300.0,
        ("engines", *off, "30s"): 0.0,
        ("engines", *off, "5m"): 2.0,
        ("engines", *eagle, "30s"): 1.0,
        ("engines", *eagle, "5m"): 1.0,
    }


def test_json_has_the_same_values():
    (view,) = experiment_views(ARMS)
    assert (view.experiment, view.baseline, [arm.arm for arm in view.arms]) == (
        "drafter",
        "off",
        ["off", "eagle"],
    )
    window = view.arms[1].windows[1]
    assert (window.window, window.engines, window.requests) == ("5m", 1, 1300)
    assert window.acceptance_length_tokens == 2.5
    assert window.comparable == {"requests": True, "load": True}
    assert window.speedup_ratio["time_per_output_token"].model_dump() == {
        "value": 2.0,
        "lower": 1.8,
        "upper": 2.2,
    }
    assert window.speedup_ratio["end_to_end"].lower is None
    assert view.arms[1].winner["time_per_output_token"]
    assert not view.arms[0].winner["time_per_output_token"]
    assert ExperimentView.model_validate_json(view.model_dump_json()) == view
