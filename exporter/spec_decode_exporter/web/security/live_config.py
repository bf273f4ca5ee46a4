"""The web configuration in force: its files are read again when they change, so that certificates rotate."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, get_args

import structlog

from spec_decode_exporter.config.errors import ConfigError, Problem
from spec_decode_exporter.core.once_until_recovered import OnceUntilRecovered
from spec_decode_exporter.web.security.load_web_config import WebConfig, read_web_config
from spec_decode_exporter.web.security.schema import ClientAuth
from spec_decode_exporter.web.security.tls import allows

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from pathlib import Path

    from spec_decode_exporter.core.clock import Clock
    from spec_decode_exporter.web.security.schema import TlsServer

LOOK_AGAIN_AFTER: Final = 1.0
"""Seconds from one look at the files to the next."""

_RESTART: Final = "; restart the exporter to have it so"

_AUTH: Final = get_args(ClientAuth)
"""From the weakest to the strongest."""

_log = structlog.get_logger()

Stamp = tuple[int, int, int, int] | None
"""A file's times of change, size and inode, or None where there is none: if they stay, so did the content."""


class LiveWebConfig:
    """What ``--web.config.file`` says now. What it comes to say by mistake, it does not say."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Read it for the first time.

        Raises:
            ConfigError: It cannot be used.
        """
        self._path = path
        self._clock = clock
        self._failures = OnceUntilRecovered()
        self.current, self._seen = _read(path)

    @property
    def successful(self) -> bool:
        """Whether what is in force is what the files say."""
        return not self._failures.is_failing

    def context(self) -> ssl.SSLContext | None:
        """Return what a connection that begins now is answered with; None without TLS."""
        return self.current.context

    def admits(self, transport: asyncio.BaseTransport) -> bool:
        """Return whether a client may stay after the handshake."""
        tls = self.current.settings.tls_server_config
        return tls is None or allows(tls, transport.get_extra_info("peercert"))

    async def follow(self) -> None:
        """Look at the files again and again."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + LOOK_AGAIN_AFTER)
            await self.look()

    async def look(self) -> None:
        """Adopt what has changed. What cannot be used is told once, and the old stays in force."""
        if self.successful and await asyncio.to_thread(_stamps, self.current.files) == self._seen:
            return
        try:
            read, stamps = await asyncio.to_thread(_read, self._path)
            self._check(read)
        except ConfigError as error:
            problems = "; ".join(map(str, error.problems))
            if self._failures.failed(problems):
                _log.error("web_config_reload_failed", problems=problems)
        else:
            self.current, self._seen = read, stamps
            self._failures.recovered()
            _log.info("web_config_reloaded", file=str(self._path))

    def _check(self, read: WebConfig) -> None:
        """Refuse what may only be by intent: a file cut short while it is written must not open a door.

        Raises:
            ConfigError: Protection is taken away, or the scheme of every URL changes.
        """
        old, new = self.current.settings, read.settings
        if (old.tls_server_config is None) != (new.tls_server_config is None):
            change = "is gone" if new.tls_server_config is None else "is new"
            raise ConfigError([Problem(str(self._path), "tls_server_config", change + _RESTART)])
        if old.basic_auth_users and not new.basic_auth_users:
            raise ConfigError([Problem(str(self._path), "basic_auth_users", "is gone" + _RESTART)])
        if old.tls_server_config and new.tls_server_config:
            weaker = _weaker(old.tls_server_config, new.tls_server_config)
            problems = [Problem(str(self._path), key, "is weaker" + _RESTART) for key in weaker]
            if problems:
                raise ConfigError(problems)


def _weaker(old: TlsServer, new: TlsServer) -> Iterator[str]:
    """Name the keys by which more clients get in. Other authorities and other names are no fewer checks."""
    if _AUTH.index(new.client_auth_type) < _AUTH.index(old.client_auth_type):
        yield "tls_server_config.client_auth_type"
    if old.client_allowed_sans and not new.client_allowed_sans:
        yield "tls_server_config.client_allowed_sans"
    if new.min_version < old.min_version:
        yield "tls_server_config.min_version"


def _read(path: Path) -> tuple[WebConfig, tuple[Stamp, ...]]:
    """Read, with stamps from before: what changes in between is then noticed at the next look."""
    stamps = _stamps(read_web_config(path).files)
    return read_web_config(path), stamps


def _stamps(files: tuple[Path, ...]) -> tuple[Stamp, ...]:
    return tuple(map(_stamp, files))


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
