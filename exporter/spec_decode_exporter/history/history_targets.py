"""Targets of a history: series grouped by the labels that the scraping server added, and their selectors."""

from __future__ import annotations

import json
import re
from collections import Counter as Counts
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from spec_decode_exporter.history.query_api import HistoryError, Labels, QueryApi, Selector
from spec_decode_exporter.monitor.state import group_of
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
    Absence,
    Counter,
    EngineKind,
    EngineMark,
    Quantity,
)

STARTS_SECONDS: Final = 900  # newest seconds in which the start time of a process is looked up
REPLICA_LABELS: Final = frozenset(
    {
        *("replica", "__replica__", "prometheus_replica", "prometheus"),
        *("receive_replica", "thanos_replica", "monitor_replica", "rule_replica"),
    }
)
"""Labels by which the servers of an HA pair differ; both scrape the same counters."""
MAX_LABEL_NAMES: Final = 128  # maximum combinations of label names of the servers of a history
NAMED: Final = 5  # names of metrics that an error has
IDENTIFYING: Final = (Counter.GENERATION_TOKENS, EngineMark.CREATED, *DRAFTS)
"""Counters and start times by which servers are found."""
_UNREAD: Final = HISTOGRAMS | {EngineMark.KV_CACHE}
_PYTHON_MARKS: Final = "python_info|http_request_duration_seconds_count"
"""Series that only a Python front end has: vLLM's Rust front end counts drafts at 0 without speculation."""
_PAGE_LABELS: Final = frozenset(
    {"__name__", "le", "cache_source", MODEL_LABEL, *POSITION_LABELS, *ENGINE_LABELS, *RANK_LABELS}
)
"""Labels that a server itself gives its series."""
_OTHER_LABELS: Final = _PAGE_LABELS | REPLICA_LABELS
_PROCESS_LABELS: Final = {"instance", "pod"}
"""Labels of one process: with one of them, series that lack others are those of a server all the same."""
_OF_PROCESS: Final = re.compile(
    r"(?i)(^|_)(instance|pod|container|host|hostname|node|nodename|zone|image|replica|worker|session|uid|hash"
    r"|revision|version|chart)(_?(id|name|uid|ip|index|address))?$"
)
"""Labels by which processes of one group may differ: no ``node_pool``, ``gpu`` or ``instance_type``."""
_DRAFT_TOKENS: Final = {Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS, EngineMark.POSITION_ACCEPTED}
_STEPS: Final = (Counter.FIRST_TOKENS, Counter.DECODE_STEPS)
_PREFIXES: Final = tuple(prefix for kind in ENGINES for prefix in kind.prefixes)

Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HistoryTarget:
    """Series of one server, as one page of it would show them."""

    kind: EngineKind
    prefix: str
    labels: Labels  # labels that identify the server, without those of replicas
    quantities: AbstractSet[Quantity]  # what its series count
    absent: tuple[str, ...] = ()  # labels that series of other servers have besides these
    name: str = ""  # its instance and what tells it from others; without an instance all of its labels

    def is_like(self, other: HistoryTarget) -> bool:
        """Return whether both are processes of one group: no label tells another place or hardware."""
        differ = (name for name, text in self.labels.items() if other.labels.get(name, text) != text)
        groups = {(each.kind.name, group_of(each.labels, each.name)) for each in (self, other)}
        return len(groups) == 1 and all(map(_OF_PROCESS.search, differ))

    def selector(self, quantities: Iterable[Quantity] | None = None) -> Selector:
        """Return the selector of its process' start and some quantities; by default all but histograms."""
        names = _names(self.kind, quantities)
        return self._selector(f"{re.escape(self.prefix)}({names})|{PROCESS_START}")

    @property
    def missing(self) -> Sequence[str]:
        """Names of the series without which its drafts are not known; empty if they are there."""
        wanted: list[Quantity] = [Counter.GENERATION_TOKENS]
        if self.quantities.isdisjoint(DRAFTS) and self.kind.absence is Absence.NO_COUNTERS:
            wanted += [Counter.DRAFTS] if self.quantities & _DRAFT_TOKENS else _STEPS
        lacking = (each for each in wanted if each in self.kind.names and each not in self.quantities)
        return [f"{self.prefix}{self.kind.names[each][0]}" for each in lacking]

    async def has_rust_front_end(self, api: QueryApi, begin: float, end: float) -> bool:
        """Return whether it is vLLM's Rust front end, without series of Python; raise like ``api.series``."""
        has_created = EngineMark.CREATED in self.quantities
        if has_created or self.kind.name != "vllm" or self.prefix.startswith("ray"):
            return False
        return not await api.series(self._selector(_PYTHON_MARKS), begin, end)

    def _selector(self, names: str) -> Selector:
        labels = {**self.labels, **dict.fromkeys(self.absent, "")}
        matchers = (f"{name}={json.dumps(text, ensure_ascii=False)}" for name, text in sorted(labels.items()))
        return Selector(names, ",".join(matchers))


def every_engine(match: str, quantities: Sequence[Quantity] | None = None) -> Selector:
    """Return the selector of some quantities of every known engine, with the user's matchers.

    By default they are all but histograms.
    """
    parts = (f"({'|'.join(map(re.escape, kind.prefixes))})({_names(kind, quantities)})" for kind in ENGINES)
    return Selector("|".join(parts), match)


def _names(kind: EngineKind, quantities: Iterable[Quantity] | None) -> str:
    wanted = [each for each in kind.names if each not in _UNREAD] if quantities is None else quantities
    return "|".join(name for quantity in wanted for name in kind.names.get(quantity, ()))


def targets_of(series: Iterable[Labels]) -> list[HistoryTarget]:
    """Group series by target, in the order of their labels. Series that no engine has are left out.

    Series with fewer labels than a server, as after an aggregation, are no target of their own: they would
    have the series of all others. Nor is an alias of some series of a server, or some with one more label.
    """
    found: defaultdict[tuple[Key, str], set[Quantity]] = defaultdict(set)
    kinds: dict[str, EngineKind] = {}
    for labels in series:
        meaning = MEANINGS.get(labels.get("__name__", "").encode())
        if meaning is None or meaning.kind is None or meaning.quantity in INFOS:
            continue
        kinds[meaning.prefix] = meaning.kind
        identity = tuple(sorted(each for each in labels.items() if each[0] not in _OTHER_LABELS))
        found[identity, meaning.prefix].add(meaning.quantity)
    every = _Identities(identity for identity, _ in found)
    whole = _Identities(key[0] for key, each in found.items() if Counter.GENERATION_TOKENS in each)
    kept = [key for key in sorted(found) if _is_server(key, found, whole)]
    names = _names_of_servers([identity for identity, _ in kept])
    return [
        HistoryTarget(
            kinds[prefix],
            prefix,
            dict(identity),
            frozenset(found[identity, prefix]),
            tuple(sorted(every.further(identity))),
            name,
        )
        for (identity, prefix), name in zip(kept, names, strict=True)
    ]


class _Identities:
    """Labels that identify servers, by the names of the labels."""

    def __init__(self, identities: Iterable[Key]) -> None:
        """Take some; raise HistoryError if they have too many combinations of names."""
        self._by_names: defaultdict[frozenset[str], set[Key]] = defaultdict(set)
        self._parts: dict[tuple[frozenset[str], frozenset[str]], set[Key]] = {}
        for identity in identities:
            self._by_names[_names_of(identity)].add(identity)
            if len(self._by_names) > MAX_LABEL_NAMES:
                raise HistoryError(
                    f"its servers differ in more than {MAX_LABEL_NAMES} combinations of labels"
                )

    def further(self, identity: Key) -> set[str]:
        """Return the names of the labels that others have besides all of these."""
        names, further = _names_of(identity), set[str]()
        for more in (each for each in self._by_names if each > names):
            if (more, names) not in self._parts:
                self._parts[more, names] = {_part(each, names) for each in self._by_names[more]}
            further |= more - names if identity in self._parts[more, names] else set()
        return further

    def has_part_of(self, identity: Key) -> bool:
        """Return whether one has some of these labels and no other, or all."""
        names = _names_of(identity)
        return any(
            _part(identity, fewer) in known for fewer, known in self._by_names.items() if fewer <= names
        )


def _names_of(identity: Key) -> frozenset[str]:
    return frozenset(name for name, _ in identity)


def _part(identity: Key, names: AbstractSet[str]) -> Key:
    return tuple(each for each in identity if each[0] in names)


def _is_server(
    key: tuple[Key, str], found: Mapping[tuple[Key, str], AbstractSet[Quantity]], whole: _Identities
) -> bool:
    """Return whether series with these labels are those of a server; ``whole`` have its generated tokens."""
    identity, prefix = key
    if Counter.GENERATION_TOKENS not in found[key]:
        return not whole.has_part_of(identity) and not whole.further(identity)
    if _PROCESS_LABELS.isdisjoint(dict(identity)) and whole.further(identity):
        return False
    aliased = (found.get((identity, other), frozenset()) for other in _PREFIXES if other != prefix)
    return not any(found[key] < each for each in aliased)


def _names_of_servers(identities: Sequence[Key]) -> list[str]:
    """Return the name of each server: its instance, with its pod and the labels that others of it lack."""
    by_instance: defaultdict[str, list[Key]] = defaultdict(list)
    for identity in identities:
        by_instance[dict(identity).get("instance", "")].append(identity)
    common = {key: set(first).intersection(*others) for key, (first, *others) in by_instance.items()}
    return [_name(dict(identity), common[dict(identity).get("instance", "")]) for identity in identities]


def _name(labels: Labels, common: AbstractSet[tuple[str, str]]) -> str:
    """Return the name of a server; all servers of its instance have the labels in ``common``."""
    instance = labels.get("instance")
    if instance is None:
        return ",".join(f"{name}={value}" for name, value in sorted(labels.items())) or "all"
    told = [labels["pod"]] if labels.get("pod", instance) not in instance else []
    told += [f"{name}={value}" for name, value in sorted(labels.items() - common) if name != "pod"]
    return f"{instance} ({', '.join(told)})" if told else instance


async def without_twins(
    api: QueryApi, targets: Sequence[HistoryTarget], begin: float, end: float
) -> list[HistoryTarget]:
    """Return the targets without those that are the same process, scraped twice under different labels.

    They have one instance, and started at the same times, to a hundredth of a second: HistoryError is raised
    if their newest start times before ``end`` cannot be read.
    """
    instances = [(target.prefix, target.labels.get("instance", target.name)) for target in targets]
    numbers = Counts(instances)
    kept: dict[object, HistoryTarget] = {}
    for target, instance in zip(targets, instances, strict=True):
        starts = frozenset[float]()
        if numbers[instance] > 1:
            selector = target.selector((EngineMark.CREATED,))
            found = await api.samples(selector, end, int(min(STARTS_SECONDS, end - begin)))
            starts = frozenset(each.values[-1] for each in found if each.values)
        kept.setdefault((instance, starts or target.name), target)
    return list(kept.values())


def nothing_found(api: QueryApi, match: str) -> HistoryError:
    """Return the error that no engine has series in the time asked for."""
    where = f" with {match}" if match else ""
    return HistoryError(f"{api.name} has no metrics of vLLM or another known engine{where} in this period")


async def nearest_names(api: QueryApi, begin: float, end: float, missing: Sequence[str] = ()) -> str:
    """Return the names of metrics that look most like those of an engine, or like missing ones."""
    try:
        names = await api.metric_names(begin, end)
    except HistoryError:
        names = []
    if missing:
        near = [name for name in get_close_matches(missing[0], names, 2 * NAMED, 0.6) if name not in missing]
        near = [name for name in near if not name.endswith("_created")]
        return f" The nearest names are {', '.join(near[:NAMED])}." if near else ""
    near = sorted(name for name in names if re.search("vllm|spec_dec|sglang", name, re.IGNORECASE))
    near = near[:NAMED] or get_close_matches("vllm:generation_tokens_total", names, NAMED, 0.3)
    if any(name.encode() in MEANINGS for name in near):
        return f". It has {', '.join(near)}: check --match, --since and --until"
    return f". The nearest names are {', '.join(near)}" if near else "; it has no metrics"
