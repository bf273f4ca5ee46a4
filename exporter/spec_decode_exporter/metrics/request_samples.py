"""Split the findings about requests into findings of a single group, model or user each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from spec_decode_exporter.requests.request_findings import (
    GroupFindings,
    GroupKey,
    ModelFindings,
    RequestFindings,
    WindowFindings,
)

Named = tuple[Mapping[str, str], RequestFindings]
"""The labels of a group, model or user, and the findings that hold nothing else."""


def single_parts(found: RequestFindings) -> Iterator[Named]:
    """Yield the findings of each group, of each model and of each user alone."""
    groups: dict[GroupKey, dict[str, GroupFindings]] = {key: {} for key in found.since_start}
    models: dict[str, dict[str, ModelFindings]] = {}
    for name, window in found.windows.items():
        for group in window.groups:
            groups.setdefault(group.key, {})[name] = group
        for model in window.models:
            models.setdefault(model.model_name, {})[name] = model
    empty = {name: replace(window, groups=(), models=()) for name, window in found.windows.items()}
    for key, by_window in groups.items():
        windows = {name: replace(empty[name], groups=(group,)) for name, group in by_window.items()}
        since_start = {key: found.since_start[key]} if key in found.since_start else {}
        yield key.labels, _only(found, windows, since_start=since_start)
    for model_name, of_model in models.items():
        windows = {name: replace(empty[name], models=(model,)) for name, model in of_model.items()}
        yield {"model_name": model_name}, _only(found, windows)
    for user in found.users:
        yield {"model_name": user.model_name, "user": user.user}, _only(found, {}, users=(user,))


def _only(found: RequestFindings, windows: Mapping[str, WindowFindings], **more: object) -> RequestFindings:
    return replace(found, **{"windows": windows, "since_start": {}, "users": (), **more})  # type: ignore[arg-type]
