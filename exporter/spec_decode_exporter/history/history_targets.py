"""Targets of a history: series grouped by the labels that the scraping server added, and their selectors."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from typing import Final

from spec_decode_exporter.costs.baseline import COMPARED
from spec_decode_exporter.history.query_api import HistoryError, Labels, QueryApi, SampledSeries
from spec_decode_exporter.scrape.engines import (
    DRAFTS,
    ENGINE_LABELS,
    ENGINES,
    HISTOGRAMS,
    INFOS,
    MEANINGS,
    MODEL_LABEL,
    POSITION_LABELS,
    PROCESS_START,
    RANK_LABELS,
    Counter,
    EngineKind,
    EngineMark,
    Quantity,
)

MIN_TURNS: Final = 4
"""Samples of two scrapes of one counter, one after the other, by which it is recognised."""
RECOGNISED_SECONDS: Final = 900.0
"""Seconds of samples by which it is recognised, at most."""
REPLICA_LABELS: Final = frozenset(
    {
        *("replica", "__replica__", "prometheus_replica", "prometheus"),
        *("receive_replica", "thanos_replica", "monitor_replica", "rule_replica"),
    }
)
"""Labels by which the servers of an HA pair differ; both scrape the same counters."""
NAMED: Final = 5
"""Names of metrics that an error has."""

_IDENTIFYING: Final = (Counter.GENERATION_TOKENS, EngineMark.CREATED)
"""Counter and start times by which a server's process is recognised."""
_PYTHON_MARKS: Final = "python_info|http_request_duration_seconds_count"
"""Series that only a Python front end has: vLLM's Rust front end counts drafts at 0 without speculation."""
_PAGE_LABELS: Final = frozenset(
    {"__name__", "le", "cache_source", MODEL_LABEL, *POSITION_LABELS, *ENGINE_LABELS, *RANK_LABELS}
)
"""Labels that a server itself gives its series."""
_OTHER_LABELS: Final = _PAGE_LABELS | REPLICA_LABELS

Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HistoryTarget:
    """Series of one server, as one page of it would show them."""

    kind: EngineKind
    prefix: str
    labels: Labels
    """Labels that identify the server, without those of replicas."""
    created: bool
    """It has creation times."""

    @property
    def name(self) -> str:
        """Name of the target: its instance, else all of its labels."""
        instance = self.labels.get("instance")
        return instance or ",".join(f"{name}={value}" for name, value in sorted(self.labels.items())) or "all"

    @property
    def selector(self) -> str:
        """Selector of its series, with its process' start, without histograms."""
        return self._selector(f"{self._named(_plain(self.kind))}|{PROCESS_START}")

    @property
    def latencies(self) -> str:
        """Selector of its drafts and of the histograms that are compared with those of a baseline."""
        return self._selector(self._named(_names(self.kind, (*DRAFTS, *COMPARED))))

    @property
    def identifying(self) -> str:
        """Selector of the counter and the start times by which its process is recognised."""
        return self._selector(f"{self._named(_names(self.kind, _IDENTIFYING))}|{PROCESS_START}")

    @property
    def activity(self) -> str:
        """Selector of its counters of generated tokens and of drafts."""
        return self._selector(self._named(_names(self.kind, (Counter.GENERATION_TOKENS, *DRAFTS))))

    async def has_rust_front_end(self, api: QueryApi, begin: float, end: float) -> bool:
        """Return whether it is vLLM's Rust front end, which has none of Python's own series.

        Raises:
            HistoryError: The history cannot be read.
        """
        if self.created or self.kind.name != "vllm" or self.prefix.startswith("ray"):
            return False
        return not await api.series(self._selector(_PYTHON_MARKS), begin, end)

    def _named(self, names: str) -> str:
        return f"{re.escape(self.prefix)}({names})"

    def _selector(self, names: str) -> str:
        return _selector(
            names, ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(self.labels.items()))
        )


def every_engine(match: str) -> str:
    """Return the selector of all counters and gauges of every known engine, with the user's matchers."""
    return _of_all([_plain(kind) for kind in ENGINES], match)


def servers_of(match: str) -> str:
    """Return the selector of the series by which the servers of all known engines are found: few of each."""
    return _of_all([_names(kind, _IDENTIFYING) for kind in ENGINES], match)


def _plain(kind: EngineKind) -> str:
    unread = HISTOGRAMS | {EngineMark.KV_CACHE}
    return _names(kind, (quantity for quantity in kind.names if quantity not in unread))


def _names(kind: EngineKind, wanted: Iterable[Quantity]) -> str:
    return "|".join(name for quantity in wanted for name in kind.names.get(quantity, ()))


def _of_all(names: Iterable[str], match: str) -> str:
    prefixes = ("|".join(map(re.escape, kind.prefixes)) for kind in ENGINES)
    parts = (f"({prefix})({each})" for prefix, each in zip(prefixes, names, strict=True))
    return _selector("|".join(parts), match)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _selector(names: str, matchers: str) -> str:
    name = names.replace("\\", "\\\\")
    return f'{{__name__=~"{name}"{"," if matchers else ""}{matchers}}}'


def targets_of(series: Iterable[Labels]) -> list[HistoryTarget]:
    """Group series by target, in the order of their labels. Series that no engine has are left out."""
    groups: defaultdict[tuple[Key, str, str], list[str]] = defaultdict(list)
    kinds: dict[str, EngineKind] = {}
    for labels in series:
        meaning = MEANINGS.get(labels.get("__name__", "").encode())
        if meaning is None or meaning.kind is None or meaning.quantity in INFOS:
            continue
        kinds[meaning.kind.name] = meaning.kind
        identity = tuple(sorted(each for each in labels.items() if each[0] not in _OTHER_LABELS))
        groups[identity, meaning.kind.name, meaning.prefix].append(labels["__name__"])
    return [
        HistoryTarget(kinds[kind], prefix, dict(key), any(name.endswith("_created") for name in names))
        for (key, kind, prefix), names in sorted(groups.items())
    ]


async def without_twins(
    api: QueryApi, targets: Sequence[HistoryTarget], begin: float, end: float
) -> list[HistoryTarget]:
    """Return the targets without those that are the same counters, scraped twice.

    Candidates have one instance under otherwise different labels: see ``are_twins``.

    Raises:
        HistoryError: Their newest samples before ``end`` cannot be read.
    """
    seconds = int(min(RECOGNISED_SECONDS, end - begin))
    by_instance: defaultdict[tuple[str, str], list[HistoryTarget]] = defaultdict(list)
    for target in targets:
        by_instance[target.labels.get("instance", target.name), target.prefix].append(target)
    kept: list[HistoryTarget] = []
    for same in by_instance.values():
        known: list[Sequence[SampledSeries]] = []
        for target in same if len(same) > 1 else ():
            samples = await api.samples(target.identifying, end, seconds)
            if not any(are_twins(each, samples) for each in known):
                kept.append(target)
                known.append(samples)
        kept += same if len(same) == 1 else ()
    return kept


def are_twins(one: Sequence[SampledSeries], other: Sequence[SampledSeries]) -> bool:
    """Return whether two scrapes are of the same counters.

    The samples of both together, in the order of time, are those of single counters: they never fall, differ
    at no moment, and start times are equal. One counter at least grows in turns.
    """
    by_series = {_page_labels(each): each for each in one}
    pairs = [(by_series[key], each) for each in other if (key := _page_labels(each)) in by_series]
    if len(pairs) != len(one) or len(pairs) != len(other):
        return False
    merged = [_merged(pair) for pair in pairs]
    return all(map(_is_one_counter, merged)) and any(_turns(each) >= MIN_TURNS for each in merged)


def _merged(pair: Sequence[SampledSeries]) -> list[tuple[float, int, float]]:
    """Return the time, scrape and value of all samples, in the order of time."""
    return sorted(
        (time, side, value)
        for side, each in enumerate(pair)
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
    return tuple(sorted(each for each in series.labels.items() if each[0] in _PAGE_LABELS))


def nothing_found(api: QueryApi, match: str) -> HistoryError:
    """Return the error that no engine has series in the time asked for."""
    where = f" with {match}" if match else ""
    return HistoryError(f"{api.name} has no metrics of an engine that is known{where} in this time")


async def nearest_names(api: QueryApi, begin: float, end: float) -> str:
    """Return the names of metrics that look most like those of an engine, and what to check."""
    try:
        names = await api.metric_names(begin, end)
    except HistoryError:
        return "; it has no metrics"
    near = sorted(name for name in names if re.search("vllm|spec_dec|sglang", name, re.IGNORECASE))
    near = near[:NAMED] or get_close_matches("vllm:generation_tokens_total", names, NAMED, 0.3)
    if any(name.encode() in MEANINGS for name in near):
        return f". It has {', '.join(near)}: check --match, --since and --until"
    return f". The nearest names are {', '.join(near)}" if near else "; it has no metrics"
