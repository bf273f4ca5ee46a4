"""Targets of a history: series grouped by the labels that the scraping server added."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from typing import Final

from spec_decode_exporter.history.query_api import Labels, SampledSeries
from spec_decode_exporter.scrape.engines import (
    ENGINE_LABELS,
    MEANINGS,
    MODEL_LABEL,
    RANK_LABELS,
    EngineKind,
)

MAX_TARGETS: Final = 256
"""Maximum targets of a report."""
MIN_TURNS: Final = 4
"""Samples of two scrapes of one counter, one after the other, by which it is recognised."""
REPLICA_LABELS: Final = frozenset(
    {
        "replica",
        "__replica__",
        "prometheus_replica",
        "prometheus",
        "receive_replica",
        "thanos_replica",
        "monitor_replica",
        "rule_replica",
    }
)
"""Labels by which the servers of an HA pair differ; both scrape the same counters."""

_PAGE_LABELS: Final = frozenset({"__name__", "le", "position", MODEL_LABEL, *ENGINE_LABELS, *RANK_LABELS})
"""Labels that a server itself gives its series."""

Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HistoryTarget:
    """Series of one server, as one page of it would show them."""

    kind: EngineKind
    prefix: str
    labels: Mapping[str, str]
    """Labels that identify the server, without those of replicas."""
    created: bool
    """It has creation times."""

    @property
    def name(self) -> str:
        """Name of the target: its instance, else all of its labels."""
        instance = self.labels.get("instance")
        return instance or ",".join(f"{name}={value}" for name, value in sorted(self.labels.items())) or "all"


def targets_of(series: Iterable[Labels]) -> list[HistoryTarget]:
    """Group series by target, in the order of their labels. Series that no engine has are left out."""
    groups: defaultdict[tuple[Key, str, str], list[str]] = defaultdict(list)
    kinds: dict[str, EngineKind] = {}
    for labels in series:
        meaning = MEANINGS.get(labels.get("__name__", "").encode())
        if meaning is None or meaning.kind is None:
            continue
        kinds[meaning.kind.name] = meaning.kind
        groups[identity(labels), meaning.kind.name, meaning.prefix].append(labels["__name__"])
    return [
        HistoryTarget(kinds[kind], prefix, dict(key), any(name.endswith("_created") for name in names))
        for (key, kind, prefix), names in sorted(groups.items())
    ]


def identity(labels: Labels) -> Key:
    """Return the labels that identify a series' server."""
    return tuple(
        sorted(
            (name, value)
            for name, value in labels.items()
            if name not in _PAGE_LABELS and name not in REPLICA_LABELS
        )
    )


async def without_twins(
    targets: Sequence[HistoryTarget],
    identifying: Callable[[HistoryTarget], Awaitable[Sequence[SampledSeries]]],
) -> tuple[list[HistoryTarget], int]:
    """Return the targets without those that are the same counters, scraped twice; and the number of these.

    Candidates have one instance under otherwise different labels: see ``are_twins``.

    Args:
        targets: All targets.
        identifying: Returns the newest samples by which the process of a target is recognised.
    """
    by_instance: defaultdict[tuple[str, str], list[HistoryTarget]] = defaultdict(list)
    for target in targets:
        by_instance[target.labels.get("instance", target.name), target.prefix].append(target)
    kept: list[HistoryTarget] = []
    for same in by_instance.values():
        unique = same[:1]
        known = [await identifying(same[0])] if len(same) > 1 else []
        for other in same[1:]:
            samples = await identifying(other)
            if not any(are_twins(each, samples) for each in known):
                unique.append(other)
                known.append(samples)
        kept += unique
    return kept, len(targets) - len(kept)


def are_twins(one: Sequence[SampledSeries], other: Sequence[SampledSeries]) -> bool:
    """Return whether two scrapes are of the same counters.

    The samples of both together, in the order of time, are those of single counters: they never fall, differ
    at no moment, and start times are equal. One counter at least grows in turns.
    """
    by_series = {_page_labels(each): each for each in one}
    pairs = [(by_series[key], each) for each in other if (key := _page_labels(each)) in by_series]
    if len(pairs) != len(one) or len(pairs) != len(other):
        return False
    merged = [_merged(*pair) for pair in pairs]
    return all(map(_is_one_counter, merged)) and any(_turns(each) >= MIN_TURNS for each in merged)


def _merged(one: SampledSeries, other: SampledSeries) -> list[tuple[float, int, float]]:
    """Return the time, scrape and value of all samples, in the order of time."""
    sides = enumerate((one, other))
    return sorted(
        (time, side, value)
        for side, each in sides
        for time, value in zip(each.times, each.values, strict=True)
    )


def _is_one_counter(samples: Sequence[tuple[float, int, float]]) -> bool:
    return all(
        later[2] == earlier[2] if later[0] == earlier[0] else later[2] >= earlier[2]
        for earlier, later in pairwise(samples)
    )


def _turns(samples: Sequence[tuple[float, int, float]]) -> int:
    return sum(earlier[1] != later[1] and later[2] > earlier[2] for earlier, later in pairwise(samples))


def _page_labels(series: SampledSeries) -> Key:
    return tuple(sorted((name, value) for name, value in series.labels.items() if name in _PAGE_LABELS))


def nearest_names(names: Sequence[str], limit: int = 5) -> list[str]:
    """Return the names of metrics that look most like those of an engine."""
    wanted = [name for name in names if any(word in name.lower() for word in ("vllm", "spec_dec", "sglang"))]
    if wanted:
        return sorted(wanted)[:limit]
    return get_close_matches("vllm:generation_tokens_total", names, limit, 0.3)
