"""Credentials of a request: headers and TLS context. Secret files may change at any time."""

from __future__ import annotations

import base64
import ssl
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from spec_decode_exporter.config.types import MAX_SECRET_BYTES, check_file
from spec_decode_exporter.core.files import read_bounded
from spec_decode_exporter.scrape.errors import PollError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import SecretStr

    from spec_decode_exporter.config.http_settings import Authorization, BasicAuth, HttpSettings, TlsConfig
    from spec_decode_exporter.scrape.errors import Reason

_UNREADABLE: Final[Reason] = "refused"
"""Reason of a poll without its secret. It has the short back-off, since a rotation takes a moment."""


Stamp = tuple[int, int, int]
"""Modification time, size and inode of a file: equal stamps mean equal content."""

K = TypeVar("K")
S = TypeVar("S")
T = TypeVar("T")


class _VersionCache(Generic[K, S, T]):
    """Cache the newest version of each of the last keys: a file that changes often fills no memory."""

    def __init__(self, read: Callable[[K], T], max_keys: int) -> None:
        self._read = read
        self._max_keys = max_keys
        self._versions: dict[K, tuple[S, T]] = {}

    def get(self, key: K, stamp: S) -> T:
        """Return the value of ``key``; read it again if the stamp has changed."""
        version = self._versions.get(key)
        if version is None or version[0] != stamp:
            self._versions.pop(key, None)
            version = stamp, self._read(key)
            if len(self._versions) == self._max_keys:
                del self._versions[next(iter(self._versions))]
            self._versions[key] = version
        return version[1]


def headers(settings: HttpSettings) -> dict[str, str]:
    """Return the headers to send. Secret files are current; an unchanged file costs a ``stat``.

    Raises:
        PollError: A file is unreadable, or its content is no header value. The message never repeats it.
    """
    sent = {name: ", ".join(header.values) for name, header in settings.http_headers.items()}
    if settings.authorization is not None:
        sent["Authorization"] = _bearer(settings.authorization)
    elif settings.basic_auth is not None:
        sent["Authorization"] = _basic(settings.basic_auth)
    return sent


def has_secret_files(settings: HttpSettings) -> bool:
    """Return whether any of the headers is read from a file, which may change at any time."""
    authorization, basic_auth = settings.authorization, settings.basic_auth
    files = (authorization and authorization.credentials_file, basic_auth and basic_auth.password_file)
    return any(files)


def ssl_context(settings: HttpSettings) -> ssl.SSLContext:
    """Return the TLS context: the same object until the settings or their files change.

    The context lacks ``tls_config.server_name``: pass that as ``server_hostname``.

    Raises:
        PollError: A file is unreadable, or no certificate or key.
    """
    tls = settings.tls_config
    if tls is None:
        return _default_context()
    files = (tls.ca_file, tls.cert_file, tls.key_file)
    return _contexts.get(tls, tuple(_stamp(path, "tls") if path else None for path in files))


def _bearer(authorization: Authorization) -> str:
    token = _secret(authorization.credentials, authorization.credentials_file)
    return f"{authorization.type} {_sendable(token, authorization.credentials_file or 'authorization')}"


def _basic(basic_auth: BasicAuth) -> str:
    password = _secret(basic_auth.password, basic_auth.password_file)
    return "Basic " + base64.b64encode(f"{basic_auth.username or ''}:{password}".encode()).decode("ascii")


def _secret(value: SecretStr | None, path: Path | None) -> str:
    if path is not None:
        return _content(path)
    return value.get_secret_value() if value is not None else ""


def _sendable(text: str, source: object) -> str:
    """Reject a secret that would end the header early; the error names its source, never its content."""
    if not (text and text.isascii() and text.isprintable()):
        raise PollError(_UNREADABLE, f"{source}: a secret must be one line of visible ASCII characters")
    return text


def _stamp(path: Path, reason: Reason) -> Stamp:
    try:
        check_file(path)
        status = path.stat()
    except OSError as error:
        raise PollError(reason, f"{path}: cannot be read: {error.strerror or error}") from None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _content(path: Path) -> str:
    """Return a secret file's text without the white space around it, as Prometheus does."""
    return _contents.get(path, _stamp(path, _UNREADABLE))


def _read(path: Path) -> str:
    try:
        return read_bounded(path, MAX_SECRET_BYTES).decode().strip()
    except OSError as error:
        raise PollError(_UNREADABLE, f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise PollError(_UNREADABLE, f"{path}: is not UTF-8 text") from None


@lru_cache(maxsize=1)
def _default_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # Python leaves it to OpenSSL on some systems
    return context


def _context(tls: TlsConfig) -> ssl.SSLContext:
    """Build a context. It takes some 10 ms, so it is cached until its files change."""
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
        _identify(context, tls)
    except (OSError, ValueError, TypeError) as error:  # ssl.SSLError is an OSError; none contains a key
        raise PollError("tls", f"tls_config: {_sources(tls)}: {_plain_text(error)}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _identify(context: ssl.SSLContext, tls: TlsConfig) -> None:
    """Load the client's certificate and key, if configured."""
    if tls.cert_file is not None:
        # An encrypted key would ask for its password on the terminal; an empty one makes it fail.
        context.load_cert_chain(tls.cert_file, tls.key_file, password="")


def _sources(tls: TlsConfig) -> str:
    return ", ".join(str(path) for path in (tls.ca_file, tls.cert_file, tls.key_file) if path is not None)


def _plain_text(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"not a valid certificate or key, or they do not belong together ({error.reason or 'no PEM'})"
    return getattr(error, "strerror", None) or "cannot be used"


_contents: Final = _VersionCache[Path, Stamp, str](_read, 256)
_contexts: Final = _VersionCache["TlsConfig", tuple[Stamp | None, ...], ssl.SSLContext](_context, 64)
