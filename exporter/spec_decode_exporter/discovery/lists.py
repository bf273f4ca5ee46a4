"""Targets from files, HTTP lists and DNS names, as in Prometheus: untrusted bytes until they are targets."""

from __future__ import annotations

import os
import re
import socket
from asyncio import timeout
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from ipaddress import IPv6Address, ip_address
from itertools import chain, islice
from pathlib import Path
from time import thread_time
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from spec_decode_exporter.config.http_settings import HeaderValues
from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.config.source import source_of
from spec_decode_exporter.config.target_settings import DnsDiscovery, HttpDiscovery, Scrape, default_name
from spec_decode_exporter.config.types import MAX_TARGETS
from spec_decode_exporter.core.files import Stamp, read_bounded, size_text, stamps
from spec_decode_exporter.core.numbers import MAX_NAMED, MAX_TEXT
from spec_decode_exporter.core.tasks import TARGET_FILES, TARGET_LISTS
from spec_decode_exporter.core.urls import MAX_PATH, PATH, PORTS, Url, host_and_port, without_query
from spec_decode_exporter.discovery.target import DiscoveryError, LabelFilter, Labels, Target
from spec_decode_exporter.scrape.client import CONFIG_RESOLVER, Client
from spec_decode_exporter.scrape.errors import PollError

FILE_SECONDS: Final = 5.0  # between two checks of the files' times and sizes; they are read after a change
MAX_FILES: Final = 1_000
MAX_PATTERN_BYTES: Final = 16 * 2**20  # bytes of all files that match one pattern
_REST: Final = 10.0  # seconds of pause after each second of processor time for files
_DNS_TIMEOUT: Final = 5.0
_FAMILIES: Final = {"A": socket.AF_INET, "AAAA": socket.AF_INET6}
_NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})
MAX_LIST_BYTES: Final = 4 * 2**20  # also characters of all its URLs: each target repeats its group's path
MAX_LIST_LABELS: Final = 50_000  # including those that no target keeps, such as `__meta_…`
# Braces of groups and their labels; quotes of groups' keys, targets and labels:
_LIMITS: Final = {b"{": 2 * MAX_TARGETS, b'"': 6 * MAX_TARGETS + 4 * MAX_LIST_LABELS}
_TOO_MUCH: Final = f"has more than {MAX_TARGETS} groups or targets, or {MAX_LIST_LABELS} labels; divide it"
_EXPORTER_LABELS: Final = ("target", "method")
_PARAMETER: Final = "__param_"
_HOST: Final = re.compile(r"[^/?#@\s]+")
_KIND_ERROR: Final = re.compile(r"Expected `(\w+)`, got `(\w+)`")
_WORDS: Final = {"str": "a text", "array": "a list", "object": "a mapping", "null": "null", "bool": "a flag"}


class TargetGroup(Struct, forbid_unknown_fields=True):
    """Targets with the same labels. A list with anything else is rejected at its first item."""

    targets: list[str] = []
    labels: dict[str, str] = {}


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
        raise DiscoveryError(f"line {line} is not JSON: {message[:MAX_TEXT]}") from None


def yaml_groups(body: bytes) -> list[TargetGroup]:
    """Decode a list in YAML, within the limits of a configuration; raise DiscoveryError as for JSON."""
    try:
        source = source_of(body, "list")
        source.refuse()
        return msgspec.convert([] if source.data is None else source.data, list[TargetGroup])
    except ConfigError as error:
        texts = (f"{one.place.replace('list:', 'line ')} {one.message}" for one in error.problems[:MAX_NAMED])
        raise DiscoveryError("; ".join(text[:150] for text in texts)) from None
    except msgspec.ValidationError as error:
        raise DiscoveryError(_in_words(error)) from None


def _in_words(error: msgspec.ValidationError) -> str:
    """Return an error of msgspec in words, such as ``[0].targets[3] must be a text, not a number``."""
    text, _, place = str(error).partition(" - at `$")
    if found := _KIND_ERROR.fullmatch(text):
        text = f"must be {_WORDS[found[1]]}, not {_WORDS.get(found[2], 'a number')}"
    elif "unknown field" in text:
        text = "has a key that is neither `targets` nor `labels`"
    return f"{place.rstrip('`') or 'the list'} {text}"


class TargetDiscovery:
    """One file pattern, list, DNS name or namespace, and its targets."""

    def __init__(self, kind: str, name: str, scrape: Scrape, refresh: float, key: str = "") -> None:
        """Log with ``name``; ``key``, by default the same, identifies the discovery and may hold a secret."""
        self.name, self.key, self.refresh = name, key or name, refresh
        self._kind, self._scrape, self._labels = kind, scrape, LabelFilter(name)

    async def targets(self) -> Sequence[Target]:
        """Refresh and return the targets; raise DiscoveryError if some of them are unknown."""
        raise NotImplementedError

    def _target(self, url: str, name: str, labels: Labels) -> Target:
        return Target(url, name, labels, self._scrape.http, self._kind, self.key)

    def targets_of(self, groups: Sequence[TargetGroup]) -> list[Target]:
        """Return the targets of the groups; raise DiscoveryError if one is unusable, or too many."""
        targets: list[Target] = []
        labels = characters = 0
        for number, group in enumerate(groups):
            path = group.labels.get("__metrics_path__", self._scrape.metrics_path)
            given = [name for name in group.labels if name.startswith(_PARAMETER)]
            try:
                place = request_target(path, {name[len(_PARAMETER) :]: group.labels[name] for name in given})
            except ValueError as error:
                raise DiscoveryError(f"[{number}] {error}") from None
            labels += len(group.labels)
            characters += sum(len(place) + len(host) for host in group.targets)
            if max(number + 1, len(targets) + len(group.targets)) > MAX_TARGETS or labels > MAX_LIST_LABELS:
                raise DiscoveryError(_TOO_MUCH)
            if characters > MAX_LIST_BYTES:
                raise DiscoveryError(f"has URLs of more than {MAX_LIST_BYTES} characters together")
            targets += self._of_group(group, place, f"[{number}]")
        return targets

    def _of_group(self, group: TargetGroup, place: str, where: str) -> Iterator[Target]:
        """Yield the targets. The labels ``target`` (the name), ``method`` and ``__…`` are not exported."""
        labels, scheme = group.labels, group.labels.get("__scheme__", self._scrape.scheme)
        name, method = (self._labels.value(labels, label) for label in _EXPORTER_LABELS)
        shown = [label for label in labels if not label.startswith("__") and label not in _EXPORTER_LABELS]
        kept = self._labels.kept({label: labels[label] for label in shown})
        for number, host in enumerate(group.targets):
            try:
                url = page_url(scheme, host, place)
            except ValueError as error:
                raise DiscoveryError(f"{where}.targets[{number}] {error}") from None
            yield replace(self._target(url, name or default_name(url), kept), method_label=method)


def request_target(path: str, parameters: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return path and query of a page; raise ValueError, without the untrusted text, if they are unusable."""
    target = f"/{path.removeprefix('/')}"
    if not re.fullmatch(PATH, target) or "://" in target.partition("?")[0]:
        remedy = f"write it after one `/`, percent-encoded and without a host, in {MAX_PATH:,} characters"
        raise ValueError(f"has an unusable path; {remedy}")
    if not parameters:
        return target
    # Checked before and after: encoding a megabyte takes time.
    is_short = sum(map(len, chain(*parameters.items()))) <= MAX_PATH
    encoded = urlencode(parameters) if is_short else ""
    if not is_short or len(encoded) > MAX_PATH:
        raise ValueError(f"has parameters of more than {MAX_PATH:,} characters together")
    return f"{target}{'&' if '?' in target else '?'}{encoded}"


def page_url(scheme: str, host: str, target: str) -> str:
    """Return the URL of a page; raise ValueError if it leads elsewhere: credentials are sent to ``host``."""
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


class FileDiscovery(TargetDiscovery):
    """Targets in the files that match one pattern; its last part may have wildcards."""

    def __init__(self, pattern: Path, scrape: Scrape) -> None:
        super().__init__("file", f"file {pattern}", scrape, FILE_SECONDS)
        self._pattern = pattern
        self._versions: Mapping[Path, Stamp | None] = {}  # empty if there is no file, or one was unreadable
        self._targets: dict[Path, Sequence[Target]] = {}  # by the last readable content of each file

    async def targets(self) -> Sequence[Target]:
        """Check the files; the last targets of an unreadable one stay, those of the others are up to date."""
        return await TARGET_FILES.run(self._check)

    def _check(self) -> Sequence[Target]:
        begin = thread_time()
        try:
            paths = self._paths()
            versions = dict(zip(paths, stamps(paths), strict=True))
            problems = [] if versions and versions == self._versions else self._read(paths)
        finally:
            self.refresh = max(FILE_SECONDS, _REST * (thread_time() - begin))
        self._versions = {} if problems else versions
        targets = list(chain.from_iterable(self._targets.get(path, ()) for path in paths))
        if problems or not paths:
            # The content of a file that was never readable is unknown; an earlier discovery may have read it.
            is_known = self._targets.keys() >= set(paths)
            more = [f"and {len(problems) - 3} more files"] if problems[3:] else []
            text = "; ".join(problems[:3] + more) or "there is no such file"
            raise DiscoveryError(text, targets if is_known else None)
        return targets

    def _paths(self) -> list[Path]:
        """Return the matching files, sorted: the order of targets must not depend on the file system."""
        folder, wanted = self._pattern.parent, self._pattern.name
        if not set("*?[") & set(wanted):
            return [self._pattern] if self._pattern.exists() else []
        try:
            with os.scandir(folder) as entries:
                found = (folder / entry.name for entry in entries if fnmatchcase(entry.name, wanted))
                paths = sorted(islice(found, MAX_FILES + 1))
            size = sum(path.stat().st_size for path in paths if path.is_file())
        except OSError as error:
            raise DiscoveryError(f"{folder}: cannot be read: {error.strerror}") from None
        if len(paths) > MAX_FILES or size > MAX_PATTERN_BYTES:
            limits = f"{MAX_FILES} files or {size_text(MAX_PATTERN_BYTES)}"
            raise DiscoveryError(f"matches more than {limits}; use several patterns or folders")
        return paths

    def _read(self, paths: Sequence[Path]) -> list[str]:
        """Read the files; return the problems of unreadable ones, whose last targets stay."""
        before, problems, self._targets, self._versions = self._targets, list[str](), {}, {}
        for path in paths:
            groups = json_groups if path.suffix.lower() == ".json" else yaml_groups
            try:
                self._targets[path] = self.targets_of(groups(read_bounded(path, MAX_LIST_BYTES)))
            except (OSError, DiscoveryError) as error:
                reason = f"cannot be read: {error.strerror or error}" if isinstance(error, OSError) else error
                problems.append(f"{path}: {reason}")
                self._targets |= {path: before[path]} if path in before else {}
            if sum(map(len, self._targets.values())) > MAX_TARGETS:
                raise DiscoveryError(f"has more than {MAX_TARGETS} targets; divide it into several patterns")
        return problems


class HttpListDiscovery(TargetDiscovery):
    """Targets in the list of one server."""

    def __init__(self, settings: HttpDiscovery, scrape: Scrape) -> None:
        name, seconds = f"http {without_query(settings.url)}", settings.refresh_interval
        super().__init__("http", name, scrape, seconds, f"http {settings.url}")
        headers = {"Accept": "application/json", "X-Prometheus-Refresh-Interval-Seconds": f"{self.refresh:g}"}
        added = {name: HeaderValues(values=(value,)) for name, value in headers.items()}
        self._url, http = settings.url, settings.http
        self._http = http.model_copy(update={"http_headers": {**http.http_headers, **added}})

    async def targets(self) -> Sequence[Target]:
        """Fetch the list, without redirects; raise DiscoveryError if there is no readable one within 10 s."""
        client = Client(self._http, timeout=10.0, max_body=MAX_LIST_BYTES)
        try:
            response = await client.get(self._url)
        except PollError as error:
            raise DiscoveryError(str(error)) from None
        finally:
            await client.close()
        if response.content_type.partition(";")[0].strip().lower() != "application/json":
            raise DiscoveryError("the answer's Content-Type is not application/json")
        return await TARGET_LISTS.run(lambda: self.targets_of(json_groups(response.body)))


class DnsNameDiscovery(TargetDiscovery):
    """Targets of one DNS name."""

    def __init__(self, name: str, settings: DnsDiscovery, scrape: Scrape) -> None:
        called = f"dns {settings.type} {name}"
        super().__init__("dns", called, scrape, settings.refresh_interval, f"{called}:{settings.port}")
        self._dns_name, self._type, self._port = name, settings.type, settings.port or 0

    async def targets(self) -> Sequence[Target]:
        """Look up the name: without a response the targets stay; if the record does not exist they go."""
        hosts = await (_services(self._dns_name) if self._type == "SRV" else self._addresses())
        groups = [TargetGroup(sorted(hosts))]  # name servers rotate records, and names follow the order
        return await TARGET_LISTS.run(self.targets_of, groups)

    async def _addresses(self) -> set[str]:
        """Look up A or AAAA records by the system's resolver."""
        try:
            async with timeout(_DNS_TIMEOUT):
                found = await CONFIG_RESOLVER.look_up(self._dns_name, self._port, _FAMILIES[self._type])
            return {ip_and_port(host, self._port) for host in found}
        except socket.gaierror as error:
            targets = () if error.errno in _NO_SUCH_NAME else None
            raise DiscoveryError(error.strerror or "the look-up failed", targets) from None
        except (OSError, UnicodeError):
            raise DiscoveryError("no name server answered in time, or this is no name") from None
        except ValueError as error:
            raise DiscoveryError(f"an address of the name {error}") from None


async def _services(name: str) -> set[str]:
    """Look up SRV records by dnspython, with the same resolv.conf: the system's resolver cannot."""
    import dns.exception
    import dns.resolver

    resolver = dns.resolver.Resolver()
    try:  # in a thread: parsing a response of 64 KiB takes some 0.2 s
        answer = await CONFIG_RESOLVER.run(resolver.resolve, name, "SRV", search=True, lifetime=_DNS_TIMEOUT)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        raise DiscoveryError("there is no such record", ()) from None
    except (dns.exception.DNSException, OSError) as error:
        raise DiscoveryError(f"the look-up failed: {type(error).__name__}") from None
    hosts = ((record.target.to_text(omit_final_dot=True), record.port) for record in answer)
    return {f"{host}:{port}" for host, port in hosts if host != "."}
