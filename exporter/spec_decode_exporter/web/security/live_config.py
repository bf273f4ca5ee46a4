"""Active web configuration: its files are reloaded when they change, so that certificates rotate."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, get_args

import structlog

from spec_decode_exporter.config.mistakes import ConfigError, Problem
from spec_decode_exporter.core.files import Stamp, stamps
from spec_decode_exporter.core.recurring import OnceUntilRecovered
from spec_decode_exporter.core.tasks import WEB_CONFIGURATION
from spec_decode_exporter.web.security.load_web_config import WebConfig, read_web_config
from spec_decode_exporter.web.security.schema import ClientAuth
from spec_decode_exporter.web.security.tls import allows

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from pathlib import Path

    from spec_decode_exporter.core.clock import Clock
    from spec_decode_exporter.web.security.schema import TlsServer

CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks of the files."""

_RESTART: Final = "; restart the exporter to apply this"

_AUTH: Final = get_args(ClientAuth)
"""From the weakest to the strongest."""

_log = structlog.get_logger()


class LiveWebConfig:
    """The web configuration of ``--web.config.file``. An invalid or weaker version is not adopted."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Read the configuration.

        Raises:
            ConfigError: It is invalid.
        """
        self._path = path
        self._clock = clock
        self._failure = OnceUntilRecovered()
        self.current, self._stamps = _read(path)

    @property
    def successful(self) -> bool:
        """True if the files are active as they are."""
        return self._failure.reason is None

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context of a new connection; None without TLS."""
        return self.current.context

    def admits(self, transport: asyncio.BaseTransport) -> bool:
        """Return whether a client is accepted after the handshake."""
        tls = self.current.settings.tls_server_config
        return tls is None or allows(tls, transport.get_extra_info("peercert"))

    async def follow(self) -> None:
        """Check the files periodically."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + CHECK_INTERVAL)
            await self.check()

    async def check(self) -> None:
        """Adopt changed files. An invalid version is logged once, and the previous one stays active."""
        if self.successful and await WEB_CONFIGURATION.run(stamps, self.current.files) == self._stamps:
            return
        try:
            read, before = await WEB_CONFIGURATION.run(_read, self._path)
            self._reject_weaker(read)
        except ConfigError as error:
            self._log_problems("; ".join(map(str, error.problems)))
        else:
            self.current, self._stamps = read, before
            self._failure.recovered()
            _log.info("web_config_reloaded", file=str(self._path))

    def _log_problems(self, problems: str) -> None:
        if self._failure.failed(problems):
            _log.error("web_config_reload_failed", problems=problems)

    def _reject_weaker(self, read: WebConfig) -> None:
        """Reject a version with less protection, such as a file that is not yet written completely.

        Raises:
            ConfigError: Protection is removed or weaker, or the scheme of every URL changes.
        """
        old, new = self.current.settings, read.settings
        if (old.tls_server_config is None) != (new.tls_server_config is None):
            change = "was removed" if new.tls_server_config is None else "was added"
            raise ConfigError([Problem(str(self._path), "tls_server_config", change + _RESTART)])
        if old.basic_auth_users and not new.basic_auth_users:
            raise ConfigError([Problem(str(self._path), "basic_auth_users", "was removed" + _RESTART)])
        if old.tls_server_config and new.tls_server_config:
            weaker = _weaker(old.tls_server_config, new.tls_server_config)
            problems = [Problem(str(self._path), key, "is weaker" + _RESTART) for key in weaker]
            if problems:
                raise ConfigError(problems)


def _weaker(old: TlsServer, new: TlsServer) -> Iterator[str]:
    """Yield the keys that admit more clients. Other authorities or names are not weaker."""
    if _AUTH.index(new.client_auth_type) < _AUTH.index(old.client_auth_type):
        yield "tls_server_config.client_auth_type"
    if old.client_allowed_sans and not new.client_allowed_sans:
        yield "tls_server_config.client_allowed_sans"
    if new.min_version < old.min_version:
        yield "tls_server_config.min_version"


def _read(path: Path) -> tuple[WebConfig, tuple[Stamp | None, ...]]:
    """Read the files, with stamps from before, so that the next check notices a change in between."""
    before = stamps(read_web_config(path).files)
    return read_web_config(path), before
