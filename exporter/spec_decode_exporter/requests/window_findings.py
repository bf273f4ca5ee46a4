"""What the requests of each window say, looked at once for all windows, in slices of a few milliseconds."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.config.units import format_duration
from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.requests.model_findings import model_findings
from spec_decode_exporter.requests.request_findings import (
    GroupFindings,
    GroupKey,
    ModelFindings,
    WindowFindings,
)
from spec_decode_exporter.requests.request_speedup import effect
from spec_decode_exporter.requests.request_summary import summary
from spec_decode_exporter.requests.request_sums import CostOf, Sums, together
from spec_decode_exporter.requests.slices import places_by, sums_at
from spec_decode_exporter.requests.stored_requests import RequestRows

Costs = Callable[[str, str], Cost | None]
"""From the names of a model and of a target, which may be empty, to what drafting costs there now."""


async def window_findings(  # noqa: PLR0917  # each is another thing
    rows: RequestRows,
    windows: Sequence[float],
    now: float,
    costs: Costs,
    whole_since: float,
    errors: InternalErrors,
) -> dict[str, WindowFindings]:
    """Return what each window says, by its label; ``rows`` are the requests of the longest of them.

    ``windows`` ascend, in seconds. Those that began before ``whole_since`` are partial. A group or model that
    fails is omitted.
    """
    edges = [bisect_left(rows.taken_at, now - length) for length in reversed(windows)]
    by_window: list[dict[GroupKey, Sums]] = [{} for _ in edges]
    for key, places in (await _places(rows)).items():
        sums_of = partial(_sums_since, rows, places, edges, cost_of(costs, key.model_name))
        found = await errors.attempt_async("requests", sums_of, key.labels)
        for groups, one in zip(by_window, found or (), strict=found is not None):
            if one.totals.requests:
                groups[key] = one
    return {
        format_duration(length): await _window(length, min(length, now - whole_since), groups, errors)
        for length, groups in zip(windows, reversed(by_window), strict=True)
    }


def cost_of(costs: Costs, model_name: str) -> CostOf:
    """Return what drafting costs a model, by target."""
    return lambda target: costs(model_name, target)


async def _places(rows: RequestRows) -> Mapping[GroupKey, list[int]]:
    """Return where the requests of each group are."""
    places: dict[GroupKey, list[int]] = {}
    for group, own in (await places_by(rows.groups)).items():
        places[group.key] = sorted([*places.get(group.key, ()), *own])
    return dict(sorted(places.items()))


async def _sums_since(
    rows: RequestRows, places: Sequence[int], edges: Sequence[int], cost: CostOf
) -> list[Sums]:
    """Return the sums of one group from each of the ascending ``edges`` on; each request counts once."""
    begins = [bisect_left(places, edge) for edge in edges]
    found: list[Sums] = []
    newer = Sums()
    for begin, end in reversed(list(zip(begins, [*begins[1:], len(places)], strict=True))):
        newer = together([newer, *await sums_at(rows, places[begin:end], cost)])
        found.append(newer)
    return found[::-1]


async def _window(
    length: float, covered: float, groups: Mapping[GroupKey, Sums], errors: InternalErrors
) -> WindowFindings:
    found = []
    for group in errors.each("requests", groups.items(), lambda each: each[0].labels, _group):
        found.append(group)
        await asyncio.sleep(0)
    models = []
    for model_name in dict.fromkeys(key.model_name for key in groups):
        own = {key: one for key, one in groups.items() if key.model_name == model_name}
        model = partial(_model, model_name, own)
        models.append(await errors.attempt_async("requests", model, {"model_name": model_name}))
        await asyncio.sleep(0)
    known = [model for model in models if model is not None]
    return WindowFindings(length, covered < length, found, known, covered)


def _group(group: tuple[GroupKey, Sums]) -> GroupFindings:
    key, one = group
    return GroupFindings(key, summary(one), effect(one.pay))


async def _model(model_name: str, groups: Mapping[GroupKey, Sums]) -> ModelFindings:
    all_of_it = together(list(groups.values()))
    await asyncio.sleep(0)
    return model_findings(model_name, all_of_it, groups)
