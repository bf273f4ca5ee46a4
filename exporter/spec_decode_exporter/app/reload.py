"""Reload the configuration: on a signal, on a request, and when its file changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import structlog

from spec_decode_exporter.app.config_warnings import config_warnings
from spec_decode_exporter.app.single_flight import Batched
from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.files import Stamp, stamps
from spec_decode_exporter.core.recurring import OnceUntilRecovered
from spec_decode_exporter.core.tasks import CONFIGURATION, Background

FOLLOW_SECONDS: Final = 5.0
"""Seconds between two checks of the configuration file."""

_log = structlog.get_logger()


class Reloadable(Protocol):
    """The service, as the reloader uses it."""

    async def adopt(self, config: Config) -> None:
        """Use another configuration for everything that runs."""
        ...

    async def restart(self) -> None:
        """Restart the tasks that depend on the configuration."""
        ...

    def forget_snapshot(self) -> None:
        """Take a new snapshot for the next request: the state of the reload has changed."""
        ...


class ConfigReloader:
    """Reads the configuration and gives it to the service; an invalid one leaves the old one in force."""

    def __init__(
        self, read: Callable[[], Config], watched: Path | None, service: Reloadable, clock: Clock
    ) -> None:
        """Configure ``service`` by ``read``; ``watched`` is the file to follow, if there is one."""
        self._read = read
        self._watched = () if watched is None else (watched,)
        self._service = service
        self._clock = clock
        self._stamps: tuple[Stamp | None, ...] = ()
        self._lock = asyncio.Lock()
        self._failures = OnceUntilRecovered()
        self._background = Background()
        self.successful = True
        """True if the last attempt that ended succeeded."""
        self.for_clients = Batched(self.reload, clock)
        """``reload``, at most once a second for all requests."""

    def read(self) -> Config:
        """Read the configuration, and log its warnings.

        Raises:
            ConfigError: It cannot be used.
        """
        # First the stamps: the next check then notices a change in between.
        self._stamps = stamps(self._watched)
        config = self._read()
        for key, reason in config_warnings(config):
            _log.warning("config_warning", key=key, reason=reason)
        return config

    async def reload(self, *, log_once: bool = False) -> None:
        """Read the configuration and adopt it, or keep the old one and raise ConfigError.

        With ``log_once``, mistakes that are in the log already are not logged again.
        """
        async with self._lock:
            try:
                config = await CONFIGURATION.run(self.read)  # reading a long one would delay the polls
                await self._service.adopt(config)
            except Exception as error:
                self._ended(successful=False)
                if isinstance(error, ConfigError):
                    self._log_failure(error, log_once=log_once)
                raise
            self._ended(successful=True)
            self._failures.recovered()
            await self._service.restart()
            _log.info("reloaded")

    def reload_in_background(self) -> None:
        """Reload for a signal, which waits for no result."""
        self._background.start(self._reload_or_keep())

    async def follow_file(self) -> None:
        """Reload when the file changes.

        After a failure every check tries again, because files that the configuration names may have changed.
        """
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + FOLLOW_SECONDS)
            if await CONFIGURATION.run(stamps, self._watched) != self._stamps or not self.successful:
                await self._reload_or_keep(log_once=True)

    async def close(self) -> None:
        """Cancel reloads under way."""
        await self._background.cancel()
        await self.for_clients.close()

    def _ended(self, *, successful: bool) -> None:
        self.successful = successful
        self._service.forget_snapshot()  # the first scrape after a reload shows it

    def _log_failure(self, error: ConfigError, *, log_once: bool) -> None:
        problems = "; ".join(map(str, error.problems))
        if self._failures.failed(problems) or not log_once:
            _log.error("reload_failed", problems=problems)

    async def _reload_or_keep(self, *, log_once: bool = False) -> None:
        with suppress(ConfigError):  # it is in the log, and the old configuration stays in force
            await self.reload(log_once=log_once)
