"""Credentials of a request: headers and TLS context. Secret files may change at any time."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spec_decode_exporter.config.types import named_file
from spec_decode_exporter.core.files import Stamp, stamps
from spec_decode_exporter.scrape.errors import PollError, Reason

if TYPE_CHECKING:
    from pydantic import SecretStr

    from spec_decode_exporter.config.http_settings import HttpSettings, TlsConfig
    from spec_decode_exporter.config.mistakes import KeyPath, Mistake
    from spec_decode_exporter.config.schema import Config

_UNREADABLE: Final[Reason] = "refused"
"""Reason of a poll without its secret. It has the short back-off, since a rotation takes a moment."""

_contexts: Final[dict[TlsConfig | None, tuple[tuple[Stamp | None, ...], ssl.SSLContext]]] = {}
"""The newest context of each settings: building takes some 10 ms, and one takes 0.9 MB."""


def headers(http: HttpSettings) -> dict[str, str]:
    """Return the headers to send. Secret files are current; an unchanged file costs a ``stat``.

    Raises:
        PollError: A file is unreadable, or its content is no header value. The message never repeats it.
    """
    sent = {name: ", ".join(header.values) for name, header in http.http_headers.items()}
    if (bearer := http.authorization) is not None:
        token, path = _secret(bearer.credentials, bearer.credentials_file), bearer.credentials_file
        sent["Authorization"] = f"{bearer.type} {_sendable(token, path or 'authorization')}"
    elif (basic := http.basic_auth) is not None:
        pair = f"{basic.username}:{_secret(basic.password, basic.password_file)}"
        sent["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode("ascii")
    return sent


def ssl_context(http: HttpSettings) -> ssl.SSLContext:
    """Return the TLS context: the same object until the settings or their files change.

    The context lacks ``tls_config.server_name``: pass that as ``server_hostname``.

    Raises:
        PollError: A file is unreadable, or no certificate or key.
    """
    tls = http.tls_config
    files = [path for path in (tls.ca_file, tls.cert_file, tls.key_file) if path is not None] if tls else []
    try:
        versions, kept = stamps(files), _contexts.get(tls)
        if kept is None or kept[0] != versions:
            kept = _contexts[tls] = versions, _context(tls)
    except (OSError, ValueError, TypeError) as error:  # ssl.SSLError is an OSError; none contains a key
        source = getattr(error, "filename", None) or ", ".join(map(str, files))
        raise PollError("tls", f"tls_config: {source}: {_plain_text(error)}") from None
    return kept[1]


def credential_mistakes(config: Config) -> Iterator[Mistake]:
    """Yield the path and the mistake of each section of a configuration whose requests cannot be built."""
    for path, http in _sections(config):
        try:
            headers(http)
            if http.tls_config is not None:
                ssl_context(http)
        except PollError as error:
            yield path, f"cannot be used: {error}"


def _sections(config: Config) -> Iterator[tuple[KeyPath, HttpSettings]]:
    discovery = config.discovery
    for index, target in enumerate(config.targets):
        yield ("targets", index), target
        if target.baseline is not None:
            yield ("targets", index, "baseline", "prometheus"), target.baseline.prometheus
    yield from ((("discovery", "http", index), section) for index, section in enumerate(discovery.http))
    for index, section in enumerate(discovery.kubernetes):
        yield ("discovery", "kubernetes", index), section
    yield ("discovery", "scrape"), discovery.scrape
    if config.baseline is not None:
        yield ("baseline", "prometheus"), config.baseline.prometheus


def _secret(value: SecretStr | None, path: Path | None) -> str:
    """Return a secret, of a file without the white space around it, as Prometheus does."""
    if path is None:
        return value.get_secret_value() if value is not None else ""
    try:
        return _content(path, stamps([path]))
    except OSError as error:
        raise PollError(_UNREADABLE, f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise PollError(_UNREADABLE, f"{path}: is not UTF-8 text") from None


@lru_cache(maxsize=256)
def _content(path: Path, version: tuple[Stamp | None, ...]) -> str:  # noqa: ARG001  a changed file is read again
    return named_file(path).decode().strip()


def _sendable(text: str, source: object) -> str:
    """Reject a secret that would end the header early; the error names its source, never its content."""
    if not (text and text.isascii() and text.isprintable()):
        raise PollError(_UNREADABLE, f"{source}: a secret must be one line of visible ASCII characters")
    return text


def _context(tls: TlsConfig | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca_file if tls else None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # Python leaves it to OpenSSL on some systems
    if tls is not None and tls.cert_file is not None:
        # An encrypted key would ask for its password on the terminal; an empty one makes it fail.
        context.load_cert_chain(tls.cert_file, tls.key_file, password="")
    if tls is not None and tls.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _plain_text(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"not a valid certificate or key, or they do not belong together ({error.reason or 'no PEM'})"
    return f"cannot be read: {error.strerror or error}" if isinstance(error, OSError) else "cannot be used"
