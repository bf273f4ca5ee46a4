"""Convert Prometheus' target groups, ``[{targets: [host:port], labels: {…}}]``, to targets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import FailFast, Field, ValidationError

from spec_decode_exporter.config.mistakes import dotted
from spec_decode_exporter.config.source import explain
from spec_decode_exporter.config.types import Section
from spec_decode_exporter.core.cooperative_yield import Pausing, finish
from spec_decode_exporter.core.urls import address
from spec_decode_exporter.discovery.group_reader import (
    MAX_GROUPS,
    MAX_LIST_LABELS,
    MAX_TARGETS,
    PAUSE,
    groups_of,
)
from spec_decode_exporter.discovery.label_limits import LabelFilter, Labels
from spec_decode_exporter.discovery.page_url import page_url, request_target
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.discovery.target_discovery import DiscoveryError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spec_decode_exporter.config.target_settings import Scrape

MAX_URL_CHARACTERS: Final = 4 * 2**20
"""Maximum characters of all URLs of a list: each target of a group repeats the group's path."""

_ADDRESS: Final = re.compile(r"[^/?#@\s]+")
_EXPORTER_LABELS: Final = frozenset({"target", "method"})
_PARAMETER: Final = "__param_"
_MAX_PROBLEMS: Final = 3
_MAX_SHOWN: Final = 200
_SLICE: Final = 64
"""Targets or groups between two cooperative yields: about a millisecond of work."""


class _Group(Section):
    targets: Annotated[tuple[str, ...], FailFast()] = ()
    labels: Mapping[str, str] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _GroupProperties:
    """Properties that all targets of one group share: a group may have thousands."""

    scheme: str
    request_target: str
    name: str
    """Empty if the address is each target's name."""
    method_label: str
    labels: Labels


class Listing:
    """Convert the groups of one list to targets; log each dropped label once."""

    def __init__(self, name: str, kind: str, scrape: Scrape, key: str = "") -> None:
        """Convert a list with the log name ``name``; poll its targets with ``scrape``.

        ``key`` identifies the list; by default it is the name.
        """
        self._key = key or name
        self._kind = kind
        self._scrape = scrape
        self._http = scrape.http
        self._labels = LabelFilter(name)

    def targets(self, groups: object) -> list[Target]:
        """Return the targets of decoded JSON or YAML.

        Raises:
            DiscoveryError: The document is not a list of groups, is too long, or has an unusable target.
        """
        return finish(self.read(groups_of(groups)))

    def read(self, groups: Iterable[object]) -> Pausing[list[Target]]:
        """Return the targets of decoded groups; ``PAUSE`` among them is a cooperative yield.

        Raises:
            DiscoveryError: As for ``targets``.
        """
        targets: list[Target] = []
        number = labels = characters = 0
        for group in groups:
            if group is PAUSE:
                yield
                continue
            if number == MAX_GROUPS:
                raise DiscoveryError(f"has more than {MAX_GROUPS} groups; put more targets into each")
            checked = _checked(group, number)
            labels += len(checked.labels)
            _check_number(len(targets) + len(checked.targets), labels)
            properties = self._properties(checked.labels, f"[{number}]")
            for place, host in enumerate(checked.targets):
                targets.append(self._target(host, properties, f"[{number}].targets[{place}]"))
                characters += len(targets[-1].url)
                if len(targets) % _SLICE == 0:
                    yield
            if characters > MAX_URL_CHARACTERS:
                raise DiscoveryError(f"has URLs of more than {MAX_URL_CHARACTERS} characters together")
            number += 1
            if number % _SLICE == 0:
                yield
        return targets

    def _properties(self, labels: Mapping[str, str], place: str) -> _GroupProperties:
        """Return the properties in a group's labels.

        ``target`` (the name), ``method`` and labels that begin with ``__`` are not exported as labels.
        """
        parameters = [
            (name.removeprefix(_PARAMETER), value)
            for name, value in labels.items()
            if name.startswith(_PARAMETER)
        ]
        path = labels.get("__metrics_path__", self._scrape.metrics_path)
        try:
            path_and_query = request_target(path, parameters)
        except ValueError as error:
            raise DiscoveryError(f"{place} {error}") from None
        own = {
            name: value
            for name, value in labels.items()
            if name not in _EXPORTER_LABELS and not name.startswith("__")
        }
        return _GroupProperties(
            labels.get("__scheme__", self._scrape.scheme),
            path_and_query,
            self._labels.value(labels, "target"),
            self._labels.value(labels, "method"),
            self._labels.kept(own),
        )

    def _target(self, host: str, properties: _GroupProperties, place: str) -> Target:
        if not _ADDRESS.fullmatch(host):
            raise DiscoveryError(
                f"{place} is not `host:port`; the labels __scheme__ and __metrics_path__ take the rest"
            )
        try:
            url = page_url(properties.scheme, host, properties.request_target)
        except ValueError as error:
            raise DiscoveryError(f"{place} {error}") from None
        return Target(
            url=url,
            name=properties.name or address(url),
            labels=properties.labels,
            http=self._http,
            discovery=self._kind,
            found_by=self._key,
            method_label=properties.method_label,
        )


def _checked(group: object, number: int) -> _Group:
    try:
        return _Group.model_validate(group)
    except ValidationError as error:
        raise DiscoveryError("; ".join(_problems(error, number))) from None


def _check_number(targets: int, labels: int) -> None:
    if targets > MAX_TARGETS:
        raise DiscoveryError(f"has more than {MAX_TARGETS} targets; divide it into several lists")
    if labels > MAX_LIST_LABELS:
        raise DiscoveryError(f"has more than {MAX_LIST_LABELS} labels; remove some")


def _problems(error: ValidationError, number: int) -> list[str]:
    """Return the first few problems of a group."""
    problems = [
        f"{dotted((number, *path))[:_MAX_SHOWN]} {message[:_MAX_SHOWN]}"
        for detail in error.errors(include_url=False)
        for path, message in explain(detail, _Group)
    ]
    more = len(problems) - _MAX_PROBLEMS
    return [*problems[:_MAX_PROBLEMS], f"and {more} more"] if more > 0 else problems
