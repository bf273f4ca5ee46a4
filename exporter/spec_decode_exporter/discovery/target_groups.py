"""Prometheus' lists of targets, as files and servers give them: ``[{targets: [host:port], labels: {…}}]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import FailFast, Field, ValidationError

from spec_decode_exporter.config.errors import dotted
from spec_decode_exporter.config.explain import explain
from spec_decode_exporter.config.http_settings import Section
from spec_decode_exporter.config.url import address
from spec_decode_exporter.core.cooperative_yield import Pausing, finish
from spec_decode_exporter.discovery.group_reader import (
    MAX_GROUPS,
    MAX_LIST_LABELS,
    MAX_TARGETS,
    PAUSE,
    groups_of,
)
from spec_decode_exporter.discovery.label_limits import LabelFilter, Labels
from spec_decode_exporter.discovery.page_url import page_url, request_target
from spec_decode_exporter.discovery.protocol import DiscoveryError
from spec_decode_exporter.discovery.target import Target

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spec_decode_exporter.config.schema import Scrape

MAX_URL_CHARACTERS: Final = 4 * 2**20
"""The most characters of all URLs of a list: a path of a group is repeated for each of its targets."""

_ADDRESS: Final = re.compile(r"[^/?#@\s]+")
_EXPORTER_LABELS: Final = frozenset({"target", "method"})
_PARAMETER: Final = "__param_"
_MAX_PROBLEMS: Final = 3
_MAX_SHOWN: Final = 200
_SLICE: Final = 64
"""Targets or groups from one pause to the next: about a millisecond of work."""


class _Group(Section):
    targets: Annotated[tuple[str, ...], FailFast()] = ()
    labels: Mapping[str, str] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Common:
    """The properties that all targets of one group share: a group may have thousands of each."""

    scheme: str
    request_target: str
    name: str
    """Empty if each target is called by its address."""
    method_label: str
    labels: Labels


class Listing:
    """Makes targets of the groups in one list, and warns once of each label that they cannot have."""

    def __init__(self, name: str, kind: str, scrape: Scrape, key: str = "") -> None:
        """Read a list that is called ``name`` in the log; ask its targets as ``scrape`` says.

        ``key`` distinguishes it from all other lists; by default it is the name.
        """
        self._key = key or name
        self._kind = kind
        self._scrape = scrape
        self._http = scrape.http
        self._labels = LabelFilter(name)

    def targets(self, groups: object) -> list[Target]:
        """Return the targets of decoded JSON or YAML.

        Raises:
            DiscoveryError: It is not a list of groups, is too long, or one of its targets cannot be asked.
        """
        return finish(self.read(groups_of(groups)))

    def read(self, groups: Iterable[object]) -> Pausing[list[Target]]:
        """Return the targets of decoded groups, among which ``PAUSE`` is the place for a pause.

        Raises:
            DiscoveryError: As for ``targets``.
        """
        found: list[Target] = []
        number = labels = characters = 0
        for group in groups:
            if group is PAUSE:
                yield
                continue
            if number == MAX_GROUPS:
                raise DiscoveryError(f"has more than {MAX_GROUPS} groups; put more targets into each")
            checked = _checked(group, number)
            labels += len(checked.labels)
            _check_number(len(found) + len(checked.targets), labels)
            common = self._common(checked.labels, f"[{number}]")
            for place, host in enumerate(checked.targets):
                found.append(self._target(host, common, f"[{number}].targets[{place}]"))
                characters += len(found[-1].url)
                if len(found) % _SLICE == 0:
                    yield
            if characters > MAX_URL_CHARACTERS:
                raise DiscoveryError(f"has URLs of more than {MAX_URL_CHARACTERS} characters together")
            number += 1
            if number % _SLICE == 0:
                yield
        return found

    def _common(self, labels: Mapping[str, str], place: str) -> _Common:
        """Return the meaning of a group's labels.

        ``target``, the name, and ``method`` are no labels of a target, nor is any that begins with ``__``.
        """
        parameters = [
            (name.removeprefix(_PARAMETER), value)
            for name, value in labels.items()
            if name.startswith(_PARAMETER)
        ]
        path = labels.get("__metrics_path__", self._scrape.metrics_path)
        try:
            asked = request_target(path, parameters)
        except ValueError as error:
            raise DiscoveryError(f"{place} {error}") from None
        own = {
            name: value
            for name, value in labels.items()
            if name not in _EXPORTER_LABELS and not name.startswith("__")
        }
        return _Common(
            labels.get("__scheme__", self._scrape.scheme),
            asked,
            self._labels.value(labels, "target"),
            self._labels.value(labels, "method"),
            self._labels.kept(own),
        )

    def _target(self, host: str, common: _Common, place: str) -> Target:
        if not _ADDRESS.fullmatch(host):
            raise DiscoveryError(
                f"{place} is not `host:port`; the labels __scheme__ and __metrics_path__ take the rest"
            )
        try:
            url = page_url(common.scheme, host, common.request_target)
        except ValueError as error:
            raise DiscoveryError(f"{place} {error}") from None
        return Target(
            url=url,
            name=common.name or address(url),
            labels=common.labels,
            http=self._http,
            discovery=self._kind,
            found_by=self._key,
            method_label=common.method_label,
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
    found = [
        f"{dotted((number, *path))[:_MAX_SHOWN]} {message[:_MAX_SHOWN]}"
        for detail in error.errors(include_url=False)
        for path, message in explain(detail, _Group)
    ]
    more = len(found) - _MAX_PROBLEMS
    return [*found[:_MAX_PROBLEMS], f"and {more} more"] if more > 0 else found
