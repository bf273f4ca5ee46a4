"""Documents of experiments, and the metrics with the same values."""

from __future__ import annotations

from types import SimpleNamespace

from spec_decode_exporter.experiments.arm import ArmFirstToken, SpeedupBasis
from spec_decode_exporter.experiments.experiment import ArmFindings
from spec_decode_exporter.experiments.pace import ArmSpeedup
from spec_decode_exporter.experiments.traffic import Traffic
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.views.fleet_view import experiment_view, experiments_of
from tests.unit.metrics.written_page import families_of


def arm(length, engines, requests=None, acceptance_length=None, first_token=None, **compared):
    """An arm over one window, which ``compared`` compares with the baseline."""
    return SimpleNamespace(
        length=length,
        engines=engines,
        requests=requests,
        acceptance_length=acceptance_length,
        first_token=first_token or ArmFirstToken(),
        **{"traffic": {}, "speedups": {}} | compared,
    )


NO_WINS = dict.fromkeys(SpeedupBasis, False)
OFF = ArmFindings((arm(30.0, 0), arm(300.0, 2, 1200)), NO_WINS)
EAGLE = ArmFindings(
    (
        arm(30.0, 1, 12, traffic={Traffic.LOAD: 0.5}),
        arm(
            300.0,
            1,
            1300,
            2.5,
            ArmFirstToken(0.2, 0.1, 0.5, 0.25),
            traffic={Traffic.LOAD: 1.25, Traffic.REQUEST_TYPES: None},
            speedups={
                SpeedupBasis.TIME_PER_OUTPUT_TOKEN: ArmSpeedup(2.0, Estimate(2.0, 1.8, 2.2, 0.1)),
                SpeedupBasis.END_TO_END: ArmSpeedup(1.9, None, Traffic.REQUEST_TYPES),
            },
        ),
    ),
    NO_WINS | {SpeedupBasis.TIME_PER_OUTPUT_TOKEN: True},
)
ARMS = [
    ({"experiment": "drafter", "arm": name, "baseline": "off"}, findings)
    for name, findings in (("off", OFF), ("eagle", EAGLE))
]


def test_the_metrics_have_exactly_the_known_values():
    off, eagle = ("drafter", "off", "off"), ("drafter", "eagle", "off")
    found = {
        (sample.name.removeprefix("spec_decode_experiment_"), *sample.labels.values()): sample.value
        for family in families_of(Snapshot(experiments=ARMS))
        for sample in family.samples
    }
    assert found == {
        ("speedup_ratio", *eagle, "5m", "time_per_output_token"): 2.0,
        ("speedup_ratio", *eagle, "5m", "end_to_end"): 1.9,
        ("speedup_ratio_lower", *eagle, "5m", "time_per_output_token"): 1.8,
        ("speedup_ratio_upper", *eagle, "5m", "time_per_output_token"): 2.2,
        ("traffic_ratio", *eagle, "30s", "load"): 0.5,
        ("traffic_ratio", *eagle, "5m", "load"): 1.25,
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
    (each,) = experiments_of(ARMS)
    assert experiment_view(*each).model_dump(mode="json") == {
        "experiment": "drafter",
        "baseline": "off",
        "arms": [
            {
                "arm": "off",
                "winner": {str(basis): False for basis in SpeedupBasis},
                "windows": [window("30s", 0), window("5m", 2, requests=1200)],
            },
            {
                "arm": "eagle",
                "winner": {
                    "time_per_output_token": True,
                    "end_to_end": False,
                    "throughput_per_request": False,
                },
                "windows": [
                    window("30s", 1, requests=12, traffic_ratio={"load": 0.5}),
                    window(
                        "5m",
                        1,
                        requests=1300,
                        acceptance_length_tokens=2.5,
                        time_to_first_token_seconds={"mean": 0.2, "p50": 0.1, "p95": 0.5},
                        prefix_cache_hit_ratio=0.25,
                        traffic_ratio={"load": 1.25, "request_types": None},
                        speedup_ratio={
                            "time_per_output_token": {
                                "value": 2.0,
                                "lower": 1.8,
                                "upper": 2.2,
                                "reason": None,
                            },
                            "end_to_end": {
                                "value": 1.9,
                                "lower": None,
                                "upper": None,
                                "reason": "request_types",
                            },
                        },
                    ),
                ],
            },
        ],
    }


def window(name, engines, **known):
    """JSON of a window of an arm; what is not known is null or empty."""
    unknown = {
        "requests": None,
        "acceptance_length_tokens": None,
        "time_to_first_token_seconds": {"mean": None, "p50": None, "p95": None},
        "prefix_cache_hit_ratio": None,
        "traffic_ratio": {},
        "speedup_ratio": {},
    }
    return {"window": name, "engines": engines, **unknown, **known}
