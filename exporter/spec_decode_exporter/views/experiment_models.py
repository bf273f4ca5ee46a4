"""What the exporter says of experiments in JSON."""

from __future__ import annotations

from pydantic import Field

from spec_decode_exporter.analysis.experiments.arm import SpeedupBasis
from spec_decode_exporter.analysis.experiments.comparability import Condition
from spec_decode_exporter.views.window_models import Estimated, View


class ArmWindowView(View):
    """An arm over one window, beside the baseline."""

    window: str = Field(description="Its name and length, as in the label `window`.")
    engines: int = Field(description="How many engines of the arm were seen in it.")
    requests: int | None = Field(description="How many requests began on them.")
    acceptance_length_tokens: float | None = Field(
        description="Mean tokens that a draft gives, the bonus token included; null without drafts."
    )
    comparable: dict[Condition, bool] = Field(
        description="Whether the arm does the same work as the baseline, condition by condition; empty of "
        "the baseline itself. What the server does not tell is left out."
    )
    speedup_ratio: dict[SpeedupBasis, Estimated] = Field(
        description="How many times as fast as the baseline, by basis; empty where they are not comparable."
    )


class ArmView(View):
    """One arm of an experiment."""

    arm: str = Field(description="Its name, the label `arm`.")
    winner: dict[SpeedupBasis, bool] = Field(
        description="Whether it is the fastest beyond doubt over the longest window, and was for at least "
        "as long without interruption, by basis."
    )
    windows: tuple[ArmWindowView, ...] = Field(description="Ascending by length.")


class ExperimentView(View):
    """Arms that serve the same work in different ways."""

    experiment: str = Field(description="Its name, the label `experiment`.")
    baseline: str = Field(description="The arm that the others are held against.")
    arms: tuple[ArmView, ...] = Field(description="In the order of the configuration, the baseline too.")
