"""What a request needs to be let in: headers and TLS, from settings whose files may change at any time."""

from __future__ import annotations

import base64
import os
import ssl
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from exporter.config.values import check_file
from exporter.scrape.errors import PollError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pydantic import SecretStr

    from exporter.config.schema import Authorization, BasicAuth, HeaderValues, HttpSettings, TlsConfig
    from exporter.scrape.errors import Reason

_UNREADABLE: Final[Reason] = "refused"
"""The reason of a poll that cannot be sent for want of its secret: back soon, a rotation takes a moment."""

_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}

Stamp = tuple[int, int, int]
"""A file's modification time, size and inode: if they stay, so did the content."""


def headers(settings: HttpSettings) -> dict[str, str]:
    """Return the headers to send, from secret files as they are now; a file costs a ``stat`` unless it changed.

    Raises:
        PollError: A file cannot be read, or holds what a header cannot; the message never repeats it.
    """
    sent = {name: ", ".join(_header(name, values)) for name, values in settings.http_headers.items()}
    if settings.authorization is not None:
        sent["Authorization"] = _bearer(settings.authorization)
    elif settings.basic_auth is not None:
        sent["Authorization"] = _basic(settings.basic_auth)
    return sent


def ssl_context(settings: HttpSettings) -> ssl.SSLContext:
    """Return the TLS context to connect with: the same object until the settings or one of their files change.

    ``tls_config.server_name`` is not in it: pass that as ``server_hostname``.

    Raises:
        PollError: A file cannot be read, or is not what it should be.
    """
    tls = settings.tls_config
    if tls is None:
        return _default_context()
    files = (tls.ca_file, tls.cert_file, tls.key_file)
    return _context(tls, tuple(_stamp(path, "tls") if path else None for path in files))


def _header(name: str, values: HeaderValues) -> Iterable[str]:
    yield from values.values
    yield from (_sendable(secret.get_secret_value(), f"the secret of header {name}") for secret in values.secrets)
    yield from (_secret_file(path) for path in values.files)


def _bearer(authorization: Authorization) -> str:
    token = _secret(authorization.credentials, authorization.credentials_file, "authorization.credentials")
    return f"{authorization.type} {_sendable(token, 'authorization.credentials')}"


def _basic(basic_auth: BasicAuth) -> str:
    user = _file(basic_auth.username_file) if basic_auth.username_file else basic_auth.username or ""
    password = _secret(basic_auth.password, basic_auth.password_file)
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


def _secret(value: SecretStr | None, path: Path | None) -> str:
    if path is not None:
        return _file(path)
    return value.get_secret_value() if value is not None else ""
