"""Targets from files, HTTP lists and DNS names, each as in Prometheus' service discovery."""

from __future__ import annotations

import os
import socket
from asyncio import timeout
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain, islice
from pathlib import Path
from time import thread_time
from typing import Final

from spec_decode_exporter.config.http_settings import HeaderValues
from spec_decode_exporter.config.target_settings import DnsDiscovery, HttpDiscovery, Scrape
from spec_decode_exporter.core.files import Stamp, read_bounded, size_text, stamps
from spec_decode_exporter.core.tasks import TARGET_FILES, TARGET_LISTS
from spec_decode_exporter.core.urls import without_query
from spec_decode_exporter.discovery.groups import (
    MAX_LIST_BYTES,
    MAX_TARGETS,
    Listing,
    TargetGroup,
    ip_and_port,
    json_groups,
    yaml_groups,
)
from spec_decode_exporter.discovery.target import DiscoveryError, Target
from spec_decode_exporter.scrape.client import CONFIG_RESOLVER, Client
from spec_decode_exporter.scrape.errors import PollError

FILE_SECONDS: Final = 5.0
"""Seconds between two checks of the files' times and sizes. They are read if one has changed."""
MAX_FILES: Final = 1_000
MAX_ENTRIES: Final = 100_000
"""Entries of the directory of a pattern with wildcards."""
MAX_PATTERN_BYTES: Final = 16 * 2**20
"""Bytes of all files that match one pattern."""
MAX_ADDRESSES: Final = 4_096
"""Addresses of one name: a DNS response has no room for more."""
_REST: Final = 10.0
"""Seconds of pause after each second of processor time for files."""
_DNS_TIMEOUT: Final = 5.0
_FAMILIES: Final = {"A": socket.AF_INET, "AAAA": socket.AF_INET6}
_NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})
"""Resolver errors for records that certainly do not exist."""


class FileDiscovery:
    """Targets in the files that match one pattern; its last part may have wildcards."""

    def __init__(self, pattern: Path, scrape: Scrape) -> None:
        """Poll the targets with ``scrape``."""
        self.name = self.key = f"file {pattern}"
        self.refresh = FILE_SECONDS
        self._pattern = pattern
        self._listing = Listing(self.name, "file", scrape)
        self._versions: Mapping[Path, Stamp | None] = {}
        """Versions of the files; empty if there is none, or one was unreadable."""
        self._targets: dict[Path, Sequence[Target]] = {}
        """Last readable content of each file."""

    async def targets(self) -> Sequence[Target]:
        """Check the files in a thread.

        Raises:
            DiscoveryError: No file matches, or one is unreadable. Its last targets stay; those of the other
                files are up to date.
        """
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
            problem = "; ".join(problems[:3]) or "there is no such file"
            more = f"; and {len(problems) - 3} more files" if problems[3:] else ""
            raise DiscoveryError(problem + more, targets if is_known else None)
        return targets

    def _paths(self) -> list[Path]:
        """Return the matching files, sorted: the order of targets must not depend on the file system."""
        folder, wanted = self._pattern.parent, self._pattern.name
        if not set("*?[") & set(wanted):
            return [self._pattern] if self._pattern.exists() else []
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in islice(entries, MAX_ENTRIES + 1)]
            paths = [folder / name for name in sorted(names) if fnmatchcase(name, wanted)][: MAX_FILES + 1]
            size = sum(path.stat().st_size for path in paths if path.is_file())
        except OSError as error:
            raise DiscoveryError(f"{folder}: cannot be read: {error.strerror}") from None
        if len(names) > MAX_ENTRIES or len(paths) > MAX_FILES or size > MAX_PATTERN_BYTES:
            limits = (
                f"{MAX_FILES} files, {size_text(MAX_PATTERN_BYTES)} or {MAX_ENTRIES} entries of the folder"
            )
            raise DiscoveryError(f"matches more than {limits}; use several patterns or folders")
        return paths

    def _read(self, paths: Sequence[Path]) -> list[str]:
        """Read the files; return the problems of unreadable ones, whose last targets stay."""
        before, self._targets, self._versions = self._targets, {}, {}
        problems = []
        for path in paths:
            groups = json_groups if path.suffix.lower() == ".json" else yaml_groups
            try:
                self._targets[path] = self._listing.targets(groups(read_bounded(path, MAX_LIST_BYTES)))
            except (OSError, DiscoveryError) as error:
                reason = f"cannot be read: {error.strerror or error}" if isinstance(error, OSError) else error
                problems.append(f"{path}: {reason}")
                self._targets |= {path: before[path]} if path in before else {}
            if sum(map(len, self._targets.values())) > MAX_TARGETS:
                raise DiscoveryError(f"has more than {MAX_TARGETS} targets; divide it into several patterns")
        return problems


class HttpListDiscovery:
    """Targets in the list of one server."""

    def __init__(self, settings: HttpDiscovery, scrape: Scrape) -> None:
        """Request the list with ``settings``, as Prometheus does; poll its targets with ``scrape``."""
        self.name, self.key = f"http {without_query(settings.url)}", f"http {settings.url}"
        self.refresh = settings.refresh_interval
        headers = {"Accept": "application/json", "X-Prometheus-Refresh-Interval-Seconds": f"{self.refresh:g}"}
        added = {name: HeaderValues(values=(value,)) for name, value in headers.items()}
        http = settings.http
        self._http = http.model_copy(update={"http_headers": {**http.http_headers, **added}})
        self._url = settings.url
        self._listing = Listing(self.name, "http", scrape, self.key)

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
        return await TARGET_LISTS.run(lambda: self._listing.targets(json_groups(response.body)))


class DnsNameDiscovery:
    """Targets of one DNS name."""

    def __init__(self, name: str, settings: DnsDiscovery, scrape: Scrape) -> None:
        """Look up ``name``, one of those in ``settings``."""
        self.name = f"dns {settings.type} {name}"
        self.key = f"{self.name}:{settings.port}"
        self.refresh = settings.refresh_interval
        self._dns_name, self._type, self._port = name, settings.type, settings.port or 0
        self._listing = Listing(self.name, "dns", scrape, self.key)

    async def targets(self) -> Sequence[Target]:
        """Look up the name.

        Raises:
            DiscoveryError: No server responds, so the targets stay; or the record does not exist, so they go.
        """
        hosts = await (_services(self._dns_name) if self._type == "SRV" else self._addresses())
        if len(hosts) > MAX_ADDRESSES:
            raise DiscoveryError(f"has more than {MAX_ADDRESSES} addresses; divide them among several names")
        # Sorted: of two targets with the same name the first keeps it, and name servers rotate records.
        return await TARGET_LISTS.run(self._listing.targets, [TargetGroup(sorted(hosts))])

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
