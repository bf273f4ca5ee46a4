"""Documents of experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from spec_decode_exporter.experiments.arm import SpeedupBasis
from spec_decode_exporter.experiments.experiment import ArmFindings
from spec_decode_exporter.experiments.traffic import Traffic
from spec_decode_exporter.figures.window_figures import window_label
from spec_decode_exporter.views.document import Estimated, View, at

Arms = Sequence[tuple[Mapping[str, str], ArmFindings]]


# fmt: off
class ArmFirstTokenView(View):
    """Time to first token of an arm, in seconds."""

    mean: float | None = at("Null if the server does not export its sum.")
    p50: float | None = at("Interpolated within the server's buckets; longest window only.")
    p95: float | None = at("Likewise.")


class ArmSpeedupView(Estimated):
    """Speed relative to the baseline, with its 95 % bounds at equal traffic: they contain what the difference of the traffic can explain at most."""

    lower: float | None = at("Null if one of both arms has none.", "estimate.lower", default=None)
    upper: float | None = at("Null exactly if `lower` is null.", "estimate.upper", default=None)
    reason: Traffic | None = at("Part of the traffic whose difference may explain the speed-up; null if the bounds exclude 1, or would contain it at equal traffic too.", default=None)


class ArmWindowView(View):
    """An arm over one window, beside the baseline."""

    window: str = at("Name and length of the window, as in the label `window`.")
    engines: int = at("Number of engines of the arm in the window.")
    requests: int | None = at("Number of requests that began on them.")
    acceptance_length_tokens: float | None = at("Mean tokens that a draft gives, the bonus token included; null without drafts.", "acceptance_length")
    time_to_first_token_seconds: ArmFirstTokenView = at("In seconds.", "first_token")
    prefix_cache_hit_ratio: float | None = at("Share of prompt tokens that the prefix cache held; null if unknown.", "first_token.prefix_hit_ratio")
    traffic_ratio: dict[Traffic, float | None] = at("Work of the arm's traffic over the baseline's, by part; below 1: fewer, shorter or easier requests; empty for the baseline itself. Null: it differs by an unknown factor, and there are no bounds. Unknown parts are absent.", "traffic")
    speedup_ratio: dict[SpeedupBasis, ArmSpeedupView] = at("Speed relative to the baseline, by basis.", "speedups")


class ArmView(View):
    """One arm of an experiment."""

    arm: str = at("Its name, the label `arm`.")
    winner: dict[SpeedupBasis, bool] = at("True if it is the fastest, statistically significant (95 %), over the longest window and for at least as long without interruption, by basis.", "wins")
    windows: tuple[ArmWindowView, ...] = at("Ascending by length.")


class ExperimentView(View):
    """Arms that serve the same work with different settings."""

    experiment: str = at("Its name, the label `experiment`.")
    baseline: str = at("The arm that the others are compared with.")
    arms: tuple[ArmView, ...] = at("In the order of the configuration, the baseline too.")

# fmt: on


def experiments_of(arms: Arms) -> list[tuple[str, str, Arms]]:
    """Return name, baseline and arms of every experiment; ``arms`` are those of a ``Snapshot``."""
    experiments = groupby(arms, lambda arm: (arm[0]["experiment"], arm[0]["baseline"]))
    return [(name, baseline, list(its)) for (name, baseline), its in experiments]


def experiment_view(name: str, baseline: str, arms: Arms) -> ExperimentView:
    """Return the document of an experiment."""
    return ExperimentView(
        experiment=name, baseline=baseline, arms=tuple(_arm(labels["arm"], its) for labels, its in arms)
    )


def _arm(name: str, its: ArmFindings) -> ArmView:
    windows = (ArmWindowView.of(each, window=window_label(each.length)) for each in its.windows)
    return ArmView.of(its, arm=name, windows=tuple(windows))
