"""Reading the configuration: YAML, the environment and the flags, and every mistake in them at once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from spec_decode_exporter.config.environment import expand
from spec_decode_exporter.config.errors import ConfigError, Problem
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.source import FLAGS, Source, read_source
from spec_decode_exporter.config.values import Context
from spec_decode_exporter.scrape.http.credentials import headers, ssl_context
from spec_decode_exporter.scrape.poll_errors import PollError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from spec_decode_exporter.config.errors import Path as KeyPath
    from spec_decode_exporter.config.schema import HttpSettings

__all__ = ["ConfigError", "Problem", "check_credentials", "load"]

_NO_OVERRIDES: Final[Mapping[str, object]] = MappingProxyType({})


def load(
    path: Path | None,
    *,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] = _NO_OVERRIDES,
    metrics: Collection[str] = (),
) -> Config:
    """Return the configuration in the file at ``path``; without a file, the defaults.

    ``environ`` is where ``${NAME}`` is looked up. ``overrides`` are values of flags by the dotted path of
    their key, such as ``poll.interval``; they replace what the file says. ``metrics`` are the names that
    may be switched on and off; without any, every name may.

    Raises:
        ConfigError: It cannot be used; it holds every mistake that could be found.
    """
    source = Source(FLAGS) if path is None else read_source(path, partial(expand, environ=environ))
    for name, value in overrides.items():
        _override(source, name, value)
    directory = Path() if path is None else path.parent
    config = source.validated(Config, Context(directory, metrics))
    _check_credentials(config, source)
    source.refuse()
    return config


def _override(source: Source, name: str, value: object) -> None:
    """Put a flag's value in the place of the file's. What the file has around it is copied, not changed."""
    *sections, key = name.split(".")
    inner = source.data
    for section in sections:
        below = inner.get(section, {})
        if not isinstance(below, dict):
            return  # the section itself is wrong, which is what there is to say
        inner[section] = inner = dict(below)
    inner[key] = value
    source.overridden.append((*sections, key))


def _check_credentials(config: Config, source: Source) -> None:
    """Build what the requests will need once now: a wrong certificate is a mistake of the configuration."""
    for path, settings in _asked(config):
        check_credentials(settings, source, path)


def check_credentials(settings: HttpSettings, source: Source, path: KeyPath) -> None:
    """Complain at ``path`` of what a request by these settings would lack, or could not use."""
    try:
        headers(settings)
        if settings.tls_config is not None:
            ssl_context(settings)
    except PollError as error:
        source.complain(path, f"cannot be used: {error}")


def _asked(config: Config) -> Iterator[tuple[KeyPath, HttpSettings]]:
    yield from ((("targets", index), target) for index, target in enumerate(config.targets))
    yield from ((("discovery", "http", index), way) for index, way in enumerate(config.discovery.http))
    yield from (
        (("discovery", "kubernetes", index), way) for index, way in enumerate(config.discovery.kubernetes)
    )
    yield ("discovery", "scrape"), config.discovery.scrape
