"""Prometheus' target groups, ``[{targets: [host:port], labels: {…}}]``, from untrusted bytes to targets."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv6Address, ip_address
from typing import Annotated, Final
from urllib.parse import urlencode

import msgspec
from msgspec import Meta, Struct

from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.config.source import source_of
from spec_decode_exporter.config.target_settings import Scrape
from spec_decode_exporter.core.urls import MAX_PATH, MAX_PORT, PATH, PORTS, Url, address, host_and_port
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
_MAX_BRACES: Final = 2 * MAX_TARGETS
"""Opening braces of a list: one for a group, one for its labels."""
_MAX_QUOTES: Final = 2 * MAX_TARGETS + 4 * MAX_LIST_LABELS + 4 * MAX_TARGETS
"""Quotes of a list: two for a target, four for a label, four for the keys of a group."""
_TOO_MUCH: Final = (
    f"has more than {MAX_TARGETS} groups, {MAX_TARGETS} targets or {MAX_LIST_LABELS} labels; "
    "divide it into several lists"
)

_EXPORTER_LABELS: Final = ("target", "method")
_PARAMETER: Final = "__param_"
_MAX_PROBLEM: Final = 200
_HOST: Final = re.compile(r"[^/?#@\s]+")
_PATH: Final = re.compile(PATH)
_KIND_ERROR: Final = re.compile(r"Expected `(\w+)`, got `(\w+)`")
_WORDS: Final = {
    "str": "a text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "null": "empty",
    "array": "a list",
    "object": "a mapping",
}


class Group(Struct, forbid_unknown_fields=True):
    """Targets with the same labels. A list with anything else is rejected at its first item."""

    targets: list[Annotated[str, Meta(max_length=MAX_TEXT)]] = []
    labels: Annotated[
        dict[str, Annotated[str, Meta(max_length=MAX_TEXT)]], Meta(max_length=MAX_GROUP_LABELS)
    ] = {}


_decode: Final = msgspec.json.Decoder(list[Group]).decode


def json_groups(body: bytes) -> list[Group]:
    """Decode a list in JSON.

    Raises:
        DiscoveryError: It is no list of groups. The text has the place, and nothing of the list.
    """
    # Counted first: decoding holds the GIL, and builds everything before it compares lengths.
    if body.count(b"{") > _MAX_BRACES or body.count(b'"') > _MAX_QUOTES:
        raise DiscoveryError(_TOO_MUCH)
    try:
        return _decode(body.removeprefix(BOM_UTF8))
    except msgspec.ValidationError as error:
        raise DiscoveryError(_in_words(error)) from None
    except RecursionError:
        raise DiscoveryError("is nested too deeply") from None
    except ValueError as error:
        message, _, byte = str(error).removeprefix("JSON is malformed: ").partition(" (byte ")
        line = body.count(b"\n", 0, int(byte[:-1]) if byte else len(body)) + 1
        raise DiscoveryError(f"line {line} is not JSON: {message[:100]}") from None


def yaml_groups(body: bytes) -> list[Group]:
    """Decode a list in YAML, within the limits of a configuration.

    Raises:
        DiscoveryError: It is no list of groups. The text has the place.
    """
    try:
        source = source_of(body, "list")
        source.refuse()
        return msgspec.convert([] if source.data is None else source.data, list[Group])
    except ConfigError as error:
        problems = (
            f"{each.place.replace('list:', 'line ')} {each.message}"[:_MAX_PROBLEM]
            for each in error.problems[:3]
        )
        raise DiscoveryError("; ".join(problems)) from None
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
        """Convert a list with the log name ``name``; poll its targets with ``scrape``.

        ``key`` identifies the list and may contain a secret; by default it is the name.
        """
        self._kind, self._key = kind, key or name
        self._scrape, self._http = scrape, scrape.http
        self._labels = LabelFilter(name)

    def targets(self, groups: Sequence[Group]) -> list[Target]:
        """Return the targets of the groups.

        Raises:
            DiscoveryError: The list exceeds a limit, or has an unusable address, path or parameter.
        """
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
        parameters = [
            (name.removeprefix(_PARAMETER), labels[name]) for name in labels if name.startswith(_PARAMETER)
        ]
        try:
            return request_target(labels.get("__metrics_path__", self._scrape.metrics_path), parameters)
        except ValueError as error:
            raise DiscoveryError(f"{where} {error}") from None

    def _of_group(self, group: Group, place: str, where: str) -> Iterator[Target]:
        """Yield the targets of a group.

        The labels ``target`` (the name), ``method`` and those that begin with ``__`` are not exported.
        """
        labels = group.labels
        scheme = labels.get("__scheme__", self._scrape.scheme)
        name, method = (self._labels.value(labels, label) for label in _EXPORTER_LABELS)
        exported = {
            label: labels[label]
            for label in labels
            if not label.startswith("__") and label not in _EXPORTER_LABELS
        }
        kept = self._labels.kept(exported)
        for number, host in enumerate(group.targets):
            try:
                url = page_url(scheme, host, place)
            except ValueError as error:
                raise DiscoveryError(f"{where}.targets[{number}] {error}") from None
            yield Target(
                url=url,
                name=name or address(url),
                labels=kept,
                http=self._http,
                discovery=self._kind,
                found_by=self._key,
                method_label=method,
            )


def request_target(path: str, parameters: Sequence[tuple[str, str]] = ()) -> str:
    """Return the request target: path and query, of untrusted text.

    Args:
        path: Its first slash is optional; it may have a query.
        parameters: Names and values to add to the query.

    Raises:
        ValueError: The path or a parameter is unusable or too long. The message does not repeat it.
    """
    target = f"/{path.removeprefix('/')}"
    if len(target) > MAX_PATH:
        raise ValueError(f"has a path of more than {MAX_PATH:,} characters")
    if not _PATH.fullmatch(target) or "://" in target.partition("?")[0]:
        raise ValueError("has an unusable path; write it after one `/`, percent-encoded and without a host")
    # Checked first: encoding a megabyte takes time.
    is_short = sum(len(name) + len(value) for name, value in parameters) <= MAX_PARAMETER_CHARACTERS
    encoded = urlencode(parameters) if is_short else ""
    if not is_short or len(parameters) > MAX_PARAMETERS or len(encoded) > MAX_PARAMETER_CHARACTERS:
        limits = f"{MAX_PARAMETERS} parameters of {MAX_PARAMETER_CHARACTERS:,} characters together"
        raise ValueError(f"has more than {limits}")
    return f"{target}{'&' if '?' in target else '?'}{encoded}" if parameters else target


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
    """Return ``ip:port`` for ``page_url``.

    Raises:
        ValueError: ``ip`` is not an IP address, or has an IPv6 zone; or no connection can use ``port``.
    """
    try:
        parsed = ip_address(ip)
    except ValueError:
        raise ValueError("is not an IP address") from None
    if isinstance(parsed, IPv6Address) and parsed.scope_id is not None:
        raise ValueError("is an IP address with a zone, which no other host knows")
    if not 0 < port <= MAX_PORT:
        raise ValueError(f"has no usable port; a port is a number from 1 to {MAX_PORT}")
    return f"[{parsed}]:{port}" if isinstance(parsed, IPv6Address) else f"{parsed}:{port}"
