"""JSON models of experiments."""

from __future__ import annotations

from pydantic import Field

from spec_decode_exporter.experiments.arm import SpeedupBasis
from spec_decode_exporter.experiments.comparability import Condition
from spec_decode_exporter.views.window_models import Estimated, View


class ArmFirstTokenView(View):
    """Time to first token of an arm, in seconds."""

    mean: float | None = Field(description="Null if the server does not export its sum.")
    p50: float | None = Field(description="Interpolated within the server's buckets; longest window only.")
    p95: float | None = Field(description="Likewise.")


class ArmWindowView(View):
    """An arm over one window, beside the baseline."""

    window: str = Field(description="Name and length of the window, as in the label `window`.")
    engines: int = Field(description="Number of engines of the arm in the window.")
    requests: int | None = Field(description="Number of requests that began on them.")
    acceptance_length_tokens: float | None = Field(
        description="Mean tokens that a draft gives, the bonus token included; null without drafts."
    )
    time_to_first_token_seconds: ArmFirstTokenView
    prefix_cache_hit_ratio: float | None = Field(
        description="Share of prompt tokens that the prefix cache held; null if unknown."
    )
    comparable: dict[Condition, bool] = Field(
        description="True if the arm does the same work as the baseline, by condition; empty for the "
        "baseline itself. Unknown conditions are absent. `prefix_hits`, `acceptance` and `request_types` "
        "only prevent a winner."
    )
    speedup_ratio: dict[SpeedupBasis, Estimated] = Field(
        description="Speed relative to the baseline, by basis; empty if they are not comparable."
    )


class ArmView(View):
    """One arm of an experiment."""

    arm: str = Field(description="Its name, the label `arm`.")
    winner: dict[SpeedupBasis, bool] = Field(
        description="True if it is the fastest, statistically significant (95 %), over the longest window "
        "and for at least as long without interruption, by basis."
    )
    windows: tuple[ArmWindowView, ...] = Field(description="Ascending by length.")


class ExperimentView(View):
    """Arms that serve the same work with different settings."""

    experiment: str = Field(description="Its name, the label `experiment`.")
    baseline: str = Field(description="The arm that the others are compared with.")
    arms: tuple[ArmView, ...] = Field(description="In the order of the configuration, the baseline too.")
