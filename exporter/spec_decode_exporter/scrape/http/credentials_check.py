"""Check credentials when the configuration is loaded: an invalid certificate is a mistake at its key."""

from __future__ import annotations

from collections.abc import Iterator

from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.config.mistakes import KeyPath
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.scrape.errors import PollError
from spec_decode_exporter.scrape.http.credentials import headers, ssl_context


def credential_mistakes(config: Config) -> Iterator[tuple[KeyPath, str]]:
    """Yield the path and the mistake of each section whose requests cannot be built."""
    for path, settings in _sections(config):
        mistake = credential_mistake(settings)
        if mistake is not None:
            yield path, mistake


def credential_mistake(settings: HttpSettings) -> str | None:
    """Build headers and TLS context of a request; return the mistake if that fails."""
    try:
        headers(settings)
        if settings.tls_config is not None:
            ssl_context(settings)
    except PollError as error:
        return f"cannot be used: {error}"
    return None


def _sections(config: Config) -> Iterator[tuple[KeyPath, HttpSettings]]:
    discovery = config.discovery
    yield from ((("targets", index), target) for index, target in enumerate(config.targets))
    yield from ((("discovery", "http", index), section) for index, section in enumerate(discovery.http))
    yield from (
        (("discovery", "kubernetes", index), section) for index, section in enumerate(discovery.kubernetes)
    )
    yield ("discovery", "scrape"), discovery.scrape
    if config.baseline is not None:
        yield ("baseline", "prometheus"), config.baseline.prometheus
    for index, target in enumerate(config.targets):
        if target.baseline is not None:
            yield ("targets", index, "baseline", "prometheus"), target.baseline.prometheus
