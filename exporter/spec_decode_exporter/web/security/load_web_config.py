"""Load a web configuration, and report all its errors at once."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from spec_decode_exporter.config.source import Source, read_source
from spec_decode_exporter.config.types import Context
from spec_decode_exporter.web.security.schema import WebSettings
from spec_decode_exporter.web.security.tls import server_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class WebConfig:
    """A web configuration and its TLS context."""

    settings: WebSettings
    context: ssl.SSLContext | None
    """TLS context of new connections; None without TLS."""
    files: tuple[Path, ...]
    """The configuration file, and the files that it names."""


def read_web_config(path: Path) -> WebConfig:
    """Return the web configuration in the file at ``path``. Call it in a thread: it reads files.

    Raises:
        ConfigError: The configuration is invalid; the error lists all problems.
    """
    source = read_source(path)
    for key in source.empty:  # an absent value here could disable protection unnoticed
        source.add_problem(key, "has no value; remove it, or give it one")
    settings = source.validated(WebSettings, Context(path.parent))
    context = _context(settings, source)
    if settings.basic_auth_users and find_spec("bcrypt") is None:
        source.add_problem(
            ("basic_auth_users",), "needs bcrypt; install it with `pip install 'spec-decode-exporter[auth]'`"
        )
    source.refuse()
    return WebConfig(settings, context, (path, *_named(settings)))


def _context(settings: WebSettings, source: Source) -> ssl.SSLContext | None:
    if settings.tls_server_config is None:
        return None
    try:
        return server_context(settings.tls_server_config)
    except ValueError as error:
        source.add_problem(("tls_server_config",), str(error))
        return None


def _named(settings: WebSettings) -> Iterator[Path]:
    tls = settings.tls_server_config
    if tls is not None:
        yield from (path for path in (tls.cert_file, tls.key_file, tls.client_ca_file) if path is not None)
