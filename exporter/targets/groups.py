"""Prometheus' lists of targets, as files and servers give them: ``[{targets: [host:port], labels: {…}}]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import structlog
from pydantic import Field, ValidationError

from exporter.config.explain import explain
from exporter.config.http_settings import Section
from exporter.config.labels import LabelValue, label_problem
from exporter.config.problem import dotted
from exporter.config.url import address, normalise
from exporter.targets.protocol import DiscoveryError
from exporter.targets.target import Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exporter.config.schema import Scrape

_log = structlog.get_logger(__name__)

MOST_TARGETS: Final = 20_000
"""Of one list: what twenty exporters can watch that share it as shards."""

_ADDRESS: Final = re.compile(r"[^/?#@\s]+")
_FOR_US: Final = frozenset({"target", "method"})
_PARAMETER: Final = "__param_"
_MOST_PROBLEMS: Final = 3
_LONGEST_SHOWN: Final = 200
_MOST_WARNINGS: Final = 100
"""Labels that are warned of: a list may have new ones each time."""


class _Group(Section):
    targets: tuple[str, ...] = ()
    labels: Mapping[str, LabelValue] = Field(default_factory=dict)


class _List(Section):
    groups: tuple[_Group, ...]


class Listing:
    """Makes targets of the groups in one list, and warns once of each label that they cannot have."""

    def __init__(self, name: str, kind: str, scrape: Scrape) -> None:
        """Read a list that is called ``name`` in the log; ask its targets as ``scrape`` says."""
        self._name = name
        self._kind = kind
        self._scrape = scrape
        self._http = scrape.http
        self._dropped: set[str] = set()

    def targets(self, groups: object) -> list[Target]:
        """Return the targets of decoded JSON or YAML.

        Raises:
            DiscoveryError: It is not a list of groups, is too long, or one of its targets cannot be asked.
        """
        try:
            checked = _List.model_validate({"groups": groups}).groups
        except ValidationError as error:
            raise DiscoveryError("; ".join(_problems(error))) from None
        number = sum(len(group.targets) for group in checked)
        if number > MOST_TARGETS:
            raise DiscoveryError(f"lists {number} targets; at most {MOST_TARGETS} are taken from one list")
        return [
            self._target(host, group.labels, f"[{number}].targets[{place}]")
            for number, group in enumerate(checked)
            for place, host in enumerate(group.targets)
        ]

    def _target(self, host: str, labels: Mapping[str, str], place: str) -> Target:
        url = self._url(host, labels, place)
        return Target(
            url=url,
            name=labels.get("target") or address(url),
            labels=tuple(sorted(self._kept(labels))),
            http=self._http,
            discovery=self._kind,
            method_label=labels.get("method", ""),
        )

    def _url(self, host: str, labels: Mapping[str, str], place: str) -> str:
        if not _ADDRESS.fullmatch(host):
            raise DiscoveryError(
                f"{place} is not `host:port`; the labels __scheme__ and __metrics_path__ take the rest"
            )
        scheme = labels.get("__scheme__", self._scrape.scheme)
        path = labels.get("__metrics_path__", self._scrape.metrics_path)
        asked = [
            (name.removeprefix(_PARAMETER), value)
            for name, value in labels.items()
            if name.startswith(_PARAMETER)
        ]
        query = f"?{urlencode(asked)}" if asked else ""
        try:
            return normalise(f"{scheme}://{host}/{path.removeprefix('/')}{query}")
        except ValueError as error:
            raise DiscoveryError(f"{place} {error}") from None

    def _kept(self, labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the labels that a target can have; those that say something to us are not among them.

        These are ``target``, its name, ``method``, how it speculates, and whatever begins with ``__``.
        """
        for name, value in labels.items():
            if name in _FOR_US or name.startswith("__"):
                continue
            problem = label_problem(name)
            if problem is None:
                yield name, value
            elif name not in self._dropped and len(self._dropped) < _MOST_WARNINGS:
                self._dropped.add(name)
                _log.warning(
                    "discovered_label_dropped",
                    discovery=self._name,
                    label=name[:_LONGEST_SHOWN],
                    reason=problem,
                )


def _problems(error: ValidationError) -> list[str]:
    """Say the first few things that are wrong with a list."""
    found = [
        f"{dotted(path[1:])[:_LONGEST_SHOWN] or 'the list'} {message[:_LONGEST_SHOWN]}"
        for detail in error.errors(include_url=False)
        for path, message in explain(detail, _List)
    ]
    more = len(found) - _MOST_PROBLEMS
    return [*found[:_MOST_PROBLEMS], f"and {more} more"] if more > 0 else found
