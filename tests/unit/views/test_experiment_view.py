"""Documents of experiments, and the metrics with the same values."""

from types import SimpleNamespace

from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.experiments.arm import SpeedupBasis
from spec_decode_exporter.experiments.experiment import ArmFindings
from spec_decode_exporter.experiments.pace import ArmSpeedup
from spec_decode_exporter.experiments.traffic import Traffic
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.views.fleet_view import experiment_views
from tests.unit.metrics.written_page import families_of

NO_TOKEN = {"mean": None, "p50": None, "p95": None}


def arm(length, engines, requests=None, acceptance_length=None, first_token=NO_TOKEN, hits=None, **compared):
    """An arm over one window, which ``compared`` compares with the baseline."""
    figures = {"requests": requests, "acceptance_length": acceptance_length, "first_token": first_token}
    compared = {"traffic": {}, "speedups": {}, "prefix_hit_ratio": hits} | compared
    return SimpleNamespace(length=length, engines=engines, **figures, **compared)


TIME = SpeedupBasis.TIME_PER_OUTPUT_TOKEN
NO_WINS = dict.fromkeys(SpeedupBasis, False)
OFF = ArmFindings((arm(30.0, 0), arm(300.0, 2, 1200)), NO_WINS)
SPEEDUPS = {
    TIME: ArmSpeedup(2.0, Estimate(2.0, 1.8, 2.2, 0.1)),
    SpeedupBasis.END_TO_END: ArmSpeedup(1.9, None, Traffic.REQUEST_TYPES),
}
COMPARED = {"traffic": {Traffic.LOAD: 1.25, Traffic.REQUEST_TYPES: None}, "speedups": SPEEDUPS}
LONG = arm(300.0, 1, 1300, 2.5, {"mean": 0.2, "p50": 0.1, "p95": 0.5}, 0.25, **COMPARED)
EAGLE = ArmFindings((arm(30.0, 1, 12, traffic={Traffic.LOAD: 0.5}), LONG), NO_WINS | {TIME: True})
ARMS = [
    ({"experiment": "drafter", "arm": name, "baseline": "off"}, findings)
    for name, findings in (("off", OFF), ("eagle", EAGLE))
]


def json_values(view):
    """Yield the values of a view by the names and labels of the metrics."""
    for arm in view.arms:
        own = (view.experiment, arm.arm, view.baseline)
        yield from ((("winner", *own, str(basis)), float(wins)) for basis, wins in arm.winner.items())
        for window in arm.windows:
            key = (*own, window.window)
            for name in ("engines", "requests", "acceptance_length_tokens"):
                yield (name, *key), getattr(window, name)
            yield from (
                (("traffic_ratio", *key, str(part)), value) for part, value in window.traffic_ratio.items()
            )
            for basis, speedup in window.speedup_ratio.items():
                yield ("speedup_ratio", *key, str(basis)), speedup.value
                yield ("speedup_ratio_lower", *key, str(basis)), speedup.lower
                yield ("speedup_ratio_upper", *key, str(basis)), speedup.upper


def test_the_json_has_exactly_the_values_of_the_metrics():
    (view,) = experiment_views(ARMS, Isolation(), "page")
    metrics = {
        (sample.name.removeprefix("spec_decode_experiment_"), *sample.labels.values()): sample.value
        for family in families_of(Snapshot(experiments=ARMS))
        for sample in family.samples
    }
    assert metrics == {key: value for key, value in json_values(view) if value is not None}
    assert len(metrics) == 20
