"""Prometheus' target groups, ``[{targets: [host:port], labels: {…}}]``, from untrusted bytes to targets."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv6Address, ip_address
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Final
from urllib.parse import urlencode

import msgspec
from msgspec import Meta, Struct

from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.config.source import source_of
from spec_decode_exporter.config.target_settings import Scrape, default_name
from spec_decode_exporter.core.urls import MAX_PATH, PATH, PORTS, Url, host_and_port
from spec_decode_exporter.discovery.target import DiscoveryError, LabelFilter, Target

MAX_LIST_BYTES: Final = 4 * 2**20
MAX_TARGETS: Final = 10_000
"""Targets of a list, and its groups."""
MAX_GROUP_LABELS: Final = 256
"""Labels of a group, including those that no target keeps, such as ``__meta_…``."""
MAX_LIST_LABELS: Final = 50_000
MAX_TEXT: Final = 16 * 2**10
MAX_URL_CHARACTERS: Final = 4 * 2**20
"""Characters of all URLs of a list: each target of a group repeats the group's path."""
MAX_PARAMETERS: Final = 32
MAX_PARAMETER_CHARACTERS: Final = 2_048
"""Characters of all parameters, as encoded in the URL."""
_LIMITS: Final = {b"{": 2 * MAX_TARGETS, b'"': 6 * MAX_TARGETS + 4 * MAX_LIST_LABELS}
"""Characters of a list: braces of groups and their labels; quotes of groups' keys, targets and labels."""
_TOO_MUCH: Final = f"has more than {MAX_TARGETS} groups or targets, or {MAX_LIST_LABELS} labels; divide it"

_EXPORTER_LABELS: Final = ("target", "method")
_PARAMETER: Final = "__param_"
_HOST: Final = re.compile(r"[^/?#@\s]+")
_PATH: Final = re.compile(PATH)
_KIND_ERROR: Final = re.compile(r"Expected `(\w+)`, got `(\w+)`")
_SCALARS: Final = {"str": "a text", "int": "a number", "float": "a number", "bool": "true or false"}
_WORDS: Final = {**_SCALARS, "null": "null", "array": "a list", "object": "a mapping"}
_Text = Annotated[str, Meta(max_length=MAX_TEXT)]


class TargetGroup(Struct, forbid_unknown_fields=True):
    """Targets with the same labels. A list with anything else is rejected at its first item."""

    targets: list[_Text] = []
    labels: Annotated[dict[str, _Text], Meta(max_length=MAX_GROUP_LABELS)] = {}


def json_groups(body: bytes) -> list[TargetGroup]:
    """Decode a list in JSON; raise DiscoveryError with the place, and nothing of the list, if it is none."""
    # Counted first: decoding holds the GIL, and builds everything before it compares lengths.
    if any(body.count(character) > limit for character, limit in _LIMITS.items()):
        raise DiscoveryError(_TOO_MUCH)
    try:
        return msgspec.json.decode(body.removeprefix(BOM_UTF8), type=list[TargetGroup])
    except msgspec.ValidationError as error:
        raise DiscoveryError(_in_words(error)) from None
    except (ValueError, RecursionError) as error:
        message, _, byte = str(error).removeprefix("JSON is malformed: ").partition(" (byte ")
        line = body.count(b"\n", 0, int(byte[:-1]) if byte else len(body)) + 1
        raise DiscoveryError(f"line {line} is not JSON: {message[:100]}") from None


def yaml_groups(body: bytes) -> list[TargetGroup]:
    """Decode a list in YAML, within the limits of a configuration; raise DiscoveryError as for JSON."""
    try:
        source = source_of(body, "list")
        source.refuse()
        return msgspec.convert([] if source.data is None else source.data, list[TargetGroup])
    except ConfigError as error:
        found = [f"{each.place.replace('list:', 'line ')} {each.message}" for each in error.problems[:3]]
        raise DiscoveryError("; ".join(each[:150] for each in found)) from None
    except msgspec.ValidationError as error:
        raise DiscoveryError(_in_words(error)) from None


def _in_words(error: msgspec.ValidationError) -> str:
    """Return an error of msgspec in words, such as ``[0].targets[3] must be a text, not a number``."""
    text, _, place = str(error).partition(" - at `$")
    if found := _KIND_ERROR.fullmatch(text):
        text = f"must be {_WORDS[found[1]]}, not {_WORDS[found[2]]}"
    elif "unknown field" in text:
        text = "has a key that is neither `targets` nor `labels`"
    return f"{place.rstrip('`') or 'the list'} {text}"


class Listing:
    """Convert the groups of one list to targets; log each dropped label once."""

    def __init__(self, name: str, kind: str, scrape: Scrape, key: str = "") -> None:
        """Log with ``name``; poll the targets with ``scrape``; ``key`` is the identity, or the name."""
        self._kind, self._key = kind, key or name
        self._scrape, self._http = scrape, scrape.http
        self._labels = LabelFilter(name)

    def targets(self, groups: Sequence[TargetGroup]) -> list[Target]:
        """Return the targets of the groups; raise DiscoveryError if one is unusable, or too many."""
        targets: list[Target] = []
        labels = characters = 0
        for number, group in enumerate(groups):
            place = self._request_target(group.labels, f"[{number}]")
            labels += len(group.labels)
            characters += sum(len(place) + len(host) for host in group.targets)
            if max(number + 1, len(targets) + len(group.targets)) > MAX_TARGETS or labels > MAX_LIST_LABELS:
                raise DiscoveryError(_TOO_MUCH)
            if characters > MAX_URL_CHARACTERS:
                raise DiscoveryError(f"has URLs of more than {MAX_URL_CHARACTERS} characters together")
            targets += self._of_group(group, place, f"[{number}]")
        return targets

    def _request_target(self, labels: Mapping[str, str], where: str) -> str:
        parameters = {
            name.removeprefix(_PARAMETER): labels[name] for name in labels if name.startswith(_PARAMETER)
        }
        try:
            return request_target(labels.get("__metrics_path__", self._scrape.metrics_path), parameters)
        except ValueError as error:
            raise DiscoveryError(f"{where} {error}") from None

    def _of_group(self, group: TargetGroup, place: str, where: str) -> Iterator[Target]:
        """Yield the targets of a group.

        The labels ``target`` (the name), ``method`` and those that begin with ``__`` are not exported.
        """
        labels = group.labels
        scheme = labels.get("__scheme__", self._scrape.scheme)
        name, method = (self._labels.value(labels, label) for label in _EXPORTER_LABELS)
        hidden = {label for label in labels if label.startswith("__")}.union(_EXPORTER_LABELS)
        kept = self._labels.kept({label: labels[label] for label in labels if label not in hidden})
        for number, host in enumerate(group.targets):
            try:
                url = page_url(scheme, host, place)
            except ValueError as error:
                raise DiscoveryError(f"{where}.targets[{number}] {error}") from None
            yield Target(
                url,
                name or default_name(url),
                kept,
                self._http,
                self._kind,
                found_by=self._key,
                method_label=method,
            )


def request_target(path: str, parameters: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return path and query of a page, from untrusted text.

    Raises:
        ValueError: The path or a parameter is unusable or too long. The message does not repeat it.
    """
    target = f"/{path.removeprefix('/')}"
    if not _PATH.fullmatch(target) or "://" in target.partition("?")[0]:
        remedy = f"write it after one `/`, percent-encoded and without a host, in {MAX_PATH:,} characters"
        raise ValueError(f"has an unusable path; {remedy}")
    if not parameters:
        return target
    # Checked before and after: encoding a megabyte takes time.
    is_short = sum(map(len, chain(*parameters.items()))) <= MAX_PARAMETER_CHARACTERS
    encoded = urlencode(parameters) if is_short else ""
    if not is_short or len(parameters) > MAX_PARAMETERS or len(encoded) > MAX_PARAMETER_CHARACTERS:
        limits = f"{MAX_PARAMETERS} parameters of {MAX_PARAMETER_CHARACTERS:,} characters together"
        raise ValueError(f"has more than {limits}")
    return f"{target}{'&' if '?' in target else '?'}{encoded}"


def page_url(scheme: str, host: str, target: str) -> str:
    """Return the URL of a page. It leads only to ``host``, since the exporter sends credentials there.

    Args:
        scheme: Exactly ``http`` or ``https``.
        host: ``host:port``; without a port, the scheme's default applies.
        target: Result of ``request_target``.

    Raises:
        ValueError: The scheme or the host is unusable. The message does not repeat them.
    """
    if scheme not in PORTS:
        raise ValueError("has a scheme that is neither `http` nor `https`, in small letters")
    if not _HOST.fullmatch(host):
        raise ValueError("is not `host:port`; the labels __scheme__ and __metrics_path__ take the rest")
    name, port = host_and_port(host)
    url = f"{scheme}://{host.lower()}{target}"
    # The client's own parser decides the host of a connection, so its result is checked.
    if Url.of(url)[:3] != (scheme, name, port or PORTS[scheme]):
        raise ValueError("leads to another host than the one that was found")
    return url


def ip_and_port(ip: str, port: int) -> str:
    """Return the host of a ``page_url``, which rejects zones; raise ValueError if ``ip`` is no IP address."""
    try:
        parsed = ip_address(ip)
    except ValueError:
        raise ValueError("is not an IP address") from None
    return f"[{parsed}]:{port}" if isinstance(parsed, IPv6Address) else f"{parsed}:{port}"
