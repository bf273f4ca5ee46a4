"""Findings of each window and each user, evaluated once for all windows in slices of about a millisecond."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.config.types import format_duration
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.requests.model_findings import model_findings
from spec_decode_exporter.requests.request_aggregate import (
    CostOf,
    RequestSums,
    add_sums,
    indices_by,
    summary,
    sums_at,
)
from spec_decode_exporter.requests.request_findings import (
    GroupFindings,
    GroupKey,
    ModelFindings,
    UserFindings,
    WindowFindings,
)
from spec_decode_exporter.requests.request_speedup import effect
from spec_decode_exporter.requests.stored_requests import RequestRows

Costs = Callable[[str, str], Cost | None]
"""Cost of drafting now, by model name and target name; an empty target is any target."""


@dataclass(frozen=True, slots=True)
class RequestInputs:
    """Inputs of an evaluation of requests."""

    costs: Costs
    errors: Isolation
    """A group, a model or a user whose evaluation fails is recorded here and omitted."""

    def cost_of(self, model_name: str) -> CostOf:
        """Return the cost of drafting for a model, by target."""
        return lambda target: self.costs(model_name, target)


async def window_findings(
    rows: RequestRows, windows: Sequence[float], now: float, whole_since: float, inputs: RequestInputs
) -> dict[str, WindowFindings]:
    """Return the findings of each window by its label; ``rows`` are the requests of the longest window.

    ``windows`` ascend, in seconds. Those that began before ``whole_since`` are partial.
    """
    edges = [bisect_left(rows.taken_at, now - length) for length in reversed(windows)]
    by_window: list[dict[GroupKey, RequestSums]] = [{} for _ in edges]
    for key, indices in (await _indices(rows)).items():
        sums_of = partial(_sums_since, rows, indices, edges, inputs.cost_of(key.model_name))
        parts = await inputs.errors.attempt_async("requests", sums_of, key.labels)
        for groups, part in zip(by_window, parts or (), strict=parts is not None):
            if part.totals.requests:
                groups[key] = part
    return {
        format_duration(length): await _window(length, min(length, now - whole_since), groups, inputs)
        for length, groups in zip(windows, reversed(by_window), strict=True)
    }


async def _indices(rows: RequestRows) -> Mapping[GroupKey, list[int]]:
    """Return the indices of each group's requests."""
    indices: dict[GroupKey, list[int]] = {}
    for group, own in (await indices_by(rows.groups)).items():
        indices[group.key] = sorted([*indices.get(group.key, ()), *own])
    return dict(sorted(indices.items()))


async def _sums_since(
    rows: RequestRows, indices: Sequence[int], edges: Sequence[int], cost_of: CostOf
) -> list[RequestSums]:
    """Return the sums of one group from each of the ascending ``edges`` on; each request is read once."""
    begins = [bisect_left(indices, edge) for edge in edges]
    parts: list[RequestSums] = []
    newer = RequestSums()
    for begin, end in reversed(list(zip(begins, [*begins[1:], len(indices)], strict=True))):
        newer = add_sums([newer, *await sums_at(rows, indices[begin:end], cost_of)])
        parts.append(newer)
    return parts[::-1]


async def _window(
    length: float, covered: float, groups: Mapping[GroupKey, RequestSums], inputs: RequestInputs
) -> WindowFindings:
    findings = []
    for each in inputs.errors.each("requests", groups.items(), lambda item: item[0].labels, _group):
        findings.append(each)
        await yield_to_event_loop()
    models = []
    for model_name in dict.fromkeys(key.model_name for key in groups):
        own = {key: part for key, part in groups.items() if key.model_name == model_name}
        model = partial(_model, model_name, own)
        models.append(await inputs.errors.attempt_async("requests", model, {"model_name": model_name}))
        await yield_to_event_loop()
    evaluated = [model for model in models if model is not None]
    return WindowFindings(length, covered < length, findings, evaluated, covered)


def _group(group: tuple[GroupKey, RequestSums]) -> GroupFindings:
    key, total = group
    return GroupFindings(key, summary(total), effect(total.speedup))


async def _model(model_name: str, groups: Mapping[GroupKey, RequestSums]) -> ModelFindings:
    total = add_sums(list(groups.values()))
    await yield_to_event_loop()
    return model_findings(model_name, total, groups)


async def user_findings(
    rows: RequestRows, label: Callable[[str], str], inputs: RequestInputs
) -> list[UserFindings]:
    """Return the findings of each user, by model; ``label`` returns a user's present label."""
    owners = (
        (label(user), group.key.model_name) if user else None
        for user, group in zip(rows.users, rows.groups, strict=True)
    )
    findings = []
    for (user, model_name), indices in sorted((await indices_by(owners)).items()):
        item = {"model_name": model_name, "user": user}
        of_user = partial(_user, rows, indices, user, model_name, inputs)
        findings.append(await inputs.errors.attempt_async("requests", of_user, item))
    return [each for each in findings if each is not None]


async def _user(
    rows: RequestRows, indices: Sequence[int], user: str, model_name: str, inputs: RequestInputs
) -> UserFindings:
    parts = await sums_at(rows, indices, inputs.cost_of(model_name))
    return UserFindings(user, model_name, summary(add_sums(parts)))
