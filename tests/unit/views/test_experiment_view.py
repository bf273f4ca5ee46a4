"""Documents of experiments, and the metrics with the same values."""

from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.views.fleet_view import experiment_views
from tests.fakes.arms import labelled_arms
from tests.unit.metrics.written_page import families_of


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


def test_the_json_has_exactly_the_values_of_the_metrics(busy):
    arms = labelled_arms(busy)
    (view,) = experiment_views(arms, Isolation(), "page")
    metrics = {
        (sample.name.removeprefix("spec_decode_experiment_"), *sample.labels.values()): sample.value
        for family in families_of(Snapshot(experiments=arms))
        for sample in family.samples
    }
    assert metrics == {key: value for key, value in json_values(view) if value is not None}
    assert {"winner", "speedup_ratio_lower", "traffic_ratio", "acceptance_length_tokens"} <= {
        name for name, *_ in metrics
    }
