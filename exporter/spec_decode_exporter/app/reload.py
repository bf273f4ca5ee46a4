"""Read the configuration, warn about values that are probably not meant, and reload it."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from spec_decode_exporter.config.load import load
from spec_decode_exporter.config.mistakes import ConfigError, dotted
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.files import Stamp, stamps
from spec_decode_exporter.core.recurring import OnceUntilRecovered
from spec_decode_exporter.core.tasks import CONFIGURATION
from spec_decode_exporter.costs.methods import METHODS, present_name
from spec_decode_exporter.scrape.credentials import credential_mistakes

FOLLOW_SECONDS: Final = 5.0  # between two checks of the configuration file

_log = structlog.get_logger()


def _read_rates(path: Path, model_name: str | None) -> dict[int | None, float]:
    from spec_decode_exporter.reports.saved_snapshot import read_rates  # in memory once a file is configured

    return read_rates(path, model_name)


load_config: Final = partial(load, checks=(credential_mistakes,), read_rates=_read_rates)
"""``load`` for a running exporter and ``check-config``, with checks that need other stages."""


def config_warnings(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the key and the text of a warning for each method that is probably misspelled."""
    for index, target in enumerate(config.targets):
        method = target.speculative.method if target.speculative else None
        if method and present_name(method) not in METHODS:
            near = difflib.get_close_matches(method.strip("[] ").lower(), METHODS, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(METHODS)}"
            wrong = f"{method!r} is no method of vLLM that the exporter knows, so its typical cost is wide"
            yield dotted(("targets", index, "speculative", "method")), f"{wrong}; {hint}"


class ConfigReloader:
    """Reads the configuration and has it adopted; an invalid one leaves the old one in force."""

    def __init__(
        self,
        read: Callable[[], Config],
        adopt: Callable[[Config], Awaitable[None]],
        ended: Callable[[], None],
        clock: Clock,
        watched: Path | None = None,
    ) -> None:
        """Have ``adopt`` use what ``read`` returns, then call ``ended``; follow the file ``watched``."""
        self._read, self._adopt, self._on_end, self._clock = read, adopt, ended, clock
        self._watched = () if watched is None else (watched,)
        self._stamps: tuple[Stamp | None, ...] = ()
        self._lock = asyncio.Lock()
        self._failures = OnceUntilRecovered()

    @property
    def problem(self) -> str:
        """Text of the last reload that ended, if it failed: a line for each mistake."""
        return self._failures.reason or ""

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
        """Read the configuration and have it adopted, or keep the old one and raise ConfigError.

        With ``log_once``, mistakes that are in the log already are not logged again.
        """
        async with self._lock:
            try:
                config = await CONFIGURATION.run(self.read)  # reading a long one would delay the polls
                await self._adopt(config)
            except ConfigError as error:
                if self._failures.failed(str(error)) or not log_once:
                    _log.error("reload_failed", problems="; ".join(map(str, error.problems)))
                raise
            except Exception as error:
                self._failures.failed(f"internal error: {type(error).__name__}")
                raise
            else:
                self._failures.recovered()
                _log.info("reloaded")
            finally:
                self._on_end()

    async def follow_file(self) -> None:
        """Reload when the file changes.

        After a failure every check tries again, because files that the configuration names may have changed.
        """
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + FOLLOW_SECONDS)
            if self.problem or await CONFIGURATION.run(stamps, self._watched) != self._stamps:
                await self.reload_or_keep(log_once=True)

    async def reload_or_keep(self, *, log_once: bool = False) -> None:
        """Reload for a signal or a change of the file, which wait for no result."""
        with suppress(ConfigError):  # it is in the log, and the old configuration stays in force
            await self.reload(log_once=log_once)
