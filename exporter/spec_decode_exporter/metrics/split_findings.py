"""Split request findings by group, model, prompts of a model, and user."""

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
"""Labels of a group, model or user, and its findings alone."""


def single_parts(findings: RequestFindings) -> Iterator[Named]:
    """Yield the findings of each group, model, prompts of a model, and user alone."""
    groups: dict[GroupKey, dict[str, GroupFindings]] = {key: {} for key in findings.since_start}
    models: dict[str, dict[str, ModelFindings]] = {}
    for name, window in findings.windows.items():
        for group in window.groups:
            groups.setdefault(group.key, {})[name] = group
        for model in window.models:
            models.setdefault(model.model_name, {})[name] = model
    empty = {name: replace(window, groups=(), models=()) for name, window in findings.windows.items()}
    for key, by_window in groups.items():
        windows = {name: replace(empty[name], groups=(group,)) for name, group in by_window.items()}
        since_start = {key: findings.since_start[key]} if key in findings.since_start else {}
        yield key.labels, _only(findings, windows, since_start=since_start)
    for model_name, of_model in models.items():
        windows = {name: replace(empty[name], models=(model,)) for name, model in of_model.items()}
        yield {"model_name": model_name}, _only(findings, windows)
    for user in findings.users:
        yield {"model_name": user.model_name, "user": user.user}, _only(findings, {}, users=(user,))
    for prompts in findings.prompts:
        yield (
            {"model_name": prompts.model_name, "by": "prompt_tokens"},
            _only(findings, {}, prompts=(prompts,)),
        )


def _only(
    findings: RequestFindings, windows: Mapping[str, WindowFindings], **more: object
) -> RequestFindings:
    return replace(findings, **{"windows": windows, "since_start": {}, "users": (), "prompts": (), **more})  # type: ignore[arg-type]
