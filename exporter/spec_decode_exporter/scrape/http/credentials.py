"""What a request needs to be let in: headers and TLS, from settings whose files may change at any time."""

from __future__ import annotations

import base64
import ssl
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from spec_decode_exporter.config.values import MAX_SECRET_BYTES, check_file
from spec_decode_exporter.core.bounded_file import read_bounded
from spec_decode_exporter.core.pem import as_file
from spec_decode_exporter.scrape.poll_errors import PollError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pydantic import SecretStr

    from spec_decode_exporter.config.schema import (
        Authorization,
        BasicAuth,
        HeaderValues,
        HttpSettings,
        TlsConfig,
    )
    from spec_decode_exporter.scrape.poll_errors import Reason

_UNREADABLE: Final[Reason] = "refused"
"""The reason of a poll that cannot be sent for want of its secret: back soon, a rotation takes a moment."""

_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}

Stamp = tuple[int, int, int]
"""A file's modification time, size and inode: if they stay, so did the content."""

K = TypeVar("K")
S = TypeVar("S")
T = TypeVar("T")


class _Newest(Generic[K, S, T]):
    """Cache the newest version of each of the last few keys: a file that keeps changing fills no memory."""

    def __init__(self, read: Callable[[K], T], most: int) -> None:
        self._read = read
        self._most = most
        self._kept: dict[K, tuple[S, T]] = {}

    def get(self, key: K, stamp: S) -> T:
        """Return what was read of ``key``; read it again if its stamp is another."""
        kept = self._kept.get(key)
        if kept is None or kept[0] != stamp:
            self._kept.pop(key, None)
            kept = stamp, self._read(key)
            if len(self._kept) == self._most:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = kept
        return kept[1]


def headers(settings: HttpSettings) -> dict[str, str]:
    """Return the headers to send, from secret files as they are now; an unchanged file costs a ``stat``.

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
    """Return the TLS context to connect with: the same object until the settings or their files change.

    ``tls_config.server_name`` is not in it: pass that as ``server_hostname``.

    Raises:
        PollError: A file cannot be read, or is not what it should be.
    """
    tls = settings.tls_config
    if tls is None:
        return _default_context()
    files = (tls.ca_file, tls.cert_file, tls.key_file)
    return _contexts.get(tls, tuple(_stamp(path, "tls") if path else None for path in files))


def _header(name: str, values: HeaderValues) -> Iterable[str]:
    yield from values.values
    yield from (_sendable(_secret(secret, None), f"http_headers.{name}") for secret in values.secrets)
    yield from (_sendable(_secret(None, path), path) for path in values.files)


def _bearer(authorization: Authorization) -> str:
    token = _secret(authorization.credentials, authorization.credentials_file)
    return f"{authorization.type} {_sendable(token, authorization.credentials_file or 'authorization')}"


def _basic(basic_auth: BasicAuth) -> str:
    user = _content(basic_auth.username_file) if basic_auth.username_file else basic_auth.username or ""
    password = _secret(basic_auth.password, basic_auth.password_file)
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


def _secret(value: SecretStr | None, path: Path | None) -> str:
    if path is not None:
        return _content(path)
    return value.get_secret_value() if value is not None else ""


def _sendable(text: str, source: object) -> str:
    """Refuse what would end the header early or cannot be sent; say where it is from, never what it is."""
    if not (text and text.isascii() and text.isprintable()):
        raise PollError(_UNREADABLE, f"{source}: a secret must be one line of visible ASCII characters")
    return text


def _stamp(path: Path, reason: Reason) -> Stamp:
    try:
        check_file(path)
        found = path.stat()
    except OSError as error:
        raise PollError(reason, f"{path}: cannot be read: {error.strerror or error}") from None
    return found.st_mtime_ns, found.st_size, found.st_ino


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
    return ssl.create_default_context()


def _context(tls: TlsConfig) -> ssl.SSLContext:
    """Build a context; that takes some 10 ms, so it is kept for as long as its files stay as they are."""
    try:
        context = ssl.create_default_context(cafile=tls.ca_file, cadata=tls.ca)
        _identify(context, tls)
    except (OSError, ValueError, TypeError) as error:  # ssl.SSLError is an OSError; none tells a key
        raise PollError("tls", f"tls_config: {_culprits(tls)}: {_plainly(error)}") from None
    context.minimum_version = _VERSIONS[tls.min_version]
    if tls.max_version is not None:
        context.maximum_version = _VERSIONS[tls.max_version]
    if tls.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _identify(context: ssl.SSLContext, tls: TlsConfig) -> None:
    """Load the client's certificate and key, if there are."""
    with as_file(tls.cert, tls.cert_file) as cert, as_file(_secret(tls.key, None), tls.key_file) as key:
        if cert is not None:
            # An encrypted key would ask for its password on the terminal; an empty one makes it fail.
            context.load_cert_chain(cert, key, password="")


def _culprits(tls: TlsConfig) -> str:
    files = [str(path) for path in (tls.ca_file, tls.cert_file, tls.key_file) if path is not None]
    return ", ".join(files) or "its PEM text"


def _plainly(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"not a valid certificate or key, or they do not belong together ({error.reason or 'no PEM'})"
    return getattr(error, "strerror", None) or "cannot be used"


_contents: Final = _Newest[Path, Stamp, str](_read, 256)
_contexts: Final = _Newest["TlsConfig", tuple[Stamp | None, ...], ssl.SSLContext](_context, 64)
