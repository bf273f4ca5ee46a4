"""Access control by ``--web.config.file``: TLS and passwords, in the format of exporter-toolkit.

Settings that Python's TLS does not support are rejected. So are settings that silently disable protection.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import ssl
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from http import HTTPStatus
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from pydantic import AfterValidator, ConfigDict, SecretStr, WithJsonSchema

from spec_decode_exporter.config.mistakes import ConfigError, Mistake, MistakesError, Problem
from spec_decode_exporter.config.source import read_source
from spec_decode_exporter.config.types import Context, NotEmpty, ReadableFile, Section, matches
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.files import Stamp, stamps
from spec_decode_exporter.core.recurring import OnceUntilRecovered
from spec_decode_exporter.core.tasks import PASSWORDS, WEB_CONFIGURATION
from spec_decode_exporter.web.limits import MAX_CONNECTIONS, error_response

VERIFIED: Final = "RequireAndVerifyClientCert"
IF_GIVEN: Final = "VerifyClientCertIfGiven"
MIN_BCRYPT_COST: Final = 4
MAX_BCRYPT_COST: Final = 16  # a comparison takes about 5 s then; each step doubles the time
CHECK_INTERVAL: Final = 1.0  # seconds between two checks of the files
_MAX_CACHED: Final = 1000  # right passwords
_SIGNIFICANT_BYTES: Final = 72  # of a password: bcrypt ignores the rest
_IGNORED: Final = frozenset({"http_server_config", "prefer_server_cipher_suites", "rate_limit"})
"""Keys of exporter-toolkit: HTTP/2, headers that are sent anyway, old TLS, a rate beside other limits."""
_VERIFY: Final = {"NoClientCert": ssl.CERT_NONE, IF_GIVEN: ssl.CERT_OPTIONAL, VERIFIED: ssl.CERT_REQUIRED}
_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_HASH: Final = re.compile(r"\$2[aby]\$(?P<cost>\d\d)\$[./A-Za-z0-9]{53}", re.ASCII)
_HASH_SCHEMA: Final = {"type": "string", "pattern": r"^\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}$"}
_CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="spec-decode-exporter", charset="UTF-8"'}

_log = structlog.get_logger()


def _valid_users(users: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
    if not users:
        raise ValueError("is empty; add a user and the bcrypt hash of a password, or remove the key")
    mistakes = [((name,), error) for name, value in users.items() if (error := _user_error(name, value))]
    if mistakes:
        raise MistakesError(mistakes)
    return users


def _user_error(name: str, value: SecretStr) -> str:
    """Return the error of a user, without the hash; empty if it is valid."""
    match = _HASH.fullmatch(value.get_secret_value())
    if ":" in name or not name:
        return "is not a user name: it must not be empty or contain a colon"
    if match is None:
        return "is not a bcrypt hash; make one with `htpasswd -nBC 10 '' | tr -d ':\\n'`"
    cost = int(match["cost"])
    if not MIN_BCRYPT_COST <= cost <= MAX_BCRYPT_COST:
        return f"has a cost of {cost}: it must be {MIN_BCRYPT_COST} to {MAX_BCRYPT_COST}; 10 is usual"
    return ""


class TlsServer(Section):
    """TLS of the server, and requirements on client certificates."""

    model_config = ConfigDict(json_schema_extra={"required": ["cert_file", "key_file"]})

    cert_file: ReadableFile | None = None
    key_file: ReadableFile | None = None
    client_auth_type: Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"] = (
        "NoClientCert"
    )
    client_ca_file: ReadableFile | None = None
    client_allowed_sans: Annotated[tuple[str, ...], NotEmpty] | None = None
    min_version: Literal["TLS12", "TLS13"] = "TLS12"

    def mistakes(self) -> Iterator[Mistake]:
        """Yield keys that are missing, or have no effect without another."""
        for key, what in (("cert_file", "certificate"), ("key_file", "key")):
            if getattr(self, key) is None:
                yield (), f"has no {what}; add `{key}`"
        if self.client_ca_file is not None and self.client_auth_type == "NoClientCert":
            yield ("client_ca_file",), f"has no effect without `client_auth_type: {VERIFIED}`; add it"
        if self.client_ca_file is None and self.client_auth_type != "NoClientCert":
            text = "needs `client_ca_file`: otherwise, any public authority could let clients in"
            yield ("client_auth_type",), text
        if self.client_allowed_sans and self.client_auth_type != VERIFIED:
            yield ("client_allowed_sans",), f"needs `client_auth_type: {VERIFIED}`; add it"

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of new connections, or raise ValueError. It reads files: use a thread."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[self.min_version]
        what = f"{self.cert_file} with {self.key_file}: not a certificate and its unencrypted key in PEM"
        try:
            # OpenSSL would prompt for the password of an encrypted key; the empty password makes it fail.
            context.load_cert_chain(self.cert_file or "", self.key_file, password="")
            if self.client_ca_file:
                what = f"{self.client_ca_file}: not a certificate in PEM"
                context.load_verify_locations(self.client_ca_file)
        except (OSError, ValueError, TypeError) as error:  # ssl.SSLError is an OSError; no text has a key
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None)
            raise ValueError(f"cannot be used: {what} ({reason or 'no PEM in it'})") from None
        context.verify_mode = _VERIFY[self.client_auth_type]
        return context

    def allows(self, certificate: Mapping[str, Any] | None) -> bool:
        """Return whether the client's verified certificate has one of the allowed names."""
        names = {  # Python writes an IPv6 address in full, in upper case
            str(ip_address(name.strip())) if kind == "IP Address" else name
            for kind, name in (certificate or {}).get("subjectAltName", ())
            if kind in {"DNS", "email", "URI", "IP Address"}
        }
        return self.client_allowed_sans is None or not names.isdisjoint(self.client_allowed_sans)


Users = Annotated[
    Mapping[Annotated[str, matches(r"[^\x00-\x1f\x7f]*", "is not a user name")], SecretStr],
    AfterValidator(_valid_users),
    WithJsonSchema({"type": "object", "minProperties": 1, "additionalProperties": _HASH_SCHEMA}),
]


class WebSettings(Section):
    """A web configuration."""

    tls_server_config: TlsServer | None = None
    basic_auth_users: Users | None = None


@dataclass(frozen=True, slots=True)
class WebConfig:
    """A web configuration."""

    settings: WebSettings
    context: ssl.SSLContext | None  # of new connections; None without TLS
    files: tuple[Path, ...]  # the configuration file, and the files that it names
    stamps: tuple[Stamp | None, ...]  # of the files before they were read, so that a later change is noticed
    ignored: Sequence[str]  # keys without effect


def read_web_config(path: Path) -> WebConfig:
    """Return a web configuration, or raise ConfigError with all problems. It reads files: use a thread."""
    read = stamps([path])
    source = read_source(path)
    tls_keys = source.data.get("tls_server_config")
    sections = (source.data, tls_keys if isinstance(tls_keys, dict) else {})
    ignored = [name for keys in sections for name in sorted(_IGNORED) if keys.pop(name, None) is not None]
    for key in source.empty:  # an absent value here could disable protection unnoticed
        if not {*key} & _IGNORED:
            source.add_problem(key, "has no value; remove it, or give it one")
    settings = source.validated(WebSettings, Context(path.parent))
    tls, context = settings.tls_server_config, None
    named = [*filter(None, (tls.cert_file, tls.key_file, tls.client_ca_file))] if tls else []
    read += stamps(named)
    try:
        context = tls.context() if tls else None
    except ValueError as error:
        source.add_problem(("tls_server_config",), str(error))
    if settings.basic_auth_users and find_spec("bcrypt") is None:
        text = "needs bcrypt; install it with `pip install 'spec-decode-exporter[auth]'`"
        source.add_problem(("basic_auth_users",), text)
    source.refuse()
    return WebConfig(settings, context, (path, *named), read, ignored)


def _protection(settings: WebSettings) -> dict[str, int]:
    """Return the keys that protect, with a number that is greater the stronger they protect."""
    tls = settings.tls_server_config
    return {
        "basic_auth_users": bool(settings.basic_auth_users),
        "tls_server_config": bool(tls),
        "tls_server_config.client_auth_type": list(_VERIFY).index(tls.client_auth_type) if tls else 0,
        "tls_server_config.client_allowed_sans": bool(tls and tls.client_allowed_sans),
        "tls_server_config.min_version": list(_VERSIONS).index(tls.min_version) if tls else 0,
    }


class LiveWebConfig:
    """The web configuration of ``--web.config.file``. An invalid or weaker version is not adopted."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Read the configuration, or raise ConfigError."""
        self._path, self._clock = path, clock
        self._failure = OnceUntilRecovered()
        self.current = read_web_config(path)
        if self.current.ignored:
            _log.warning("web_config_keys_ignored", keys=self.current.ignored)

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
        return tls is None or tls.allows(transport.get_extra_info("peercert"))

    async def follow(self) -> None:
        """Check the files periodically."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + CHECK_INTERVAL)
            await self.check()

    async def check(self) -> None:
        """Adopt changed files. An invalid version is logged once, and the previous one stays active."""
        found = await WEB_CONFIGURATION.run(stamps, self.current.files)
        if self.successful and found == self.current.stamps:
            return
        try:
            read = await WEB_CONFIGURATION.run(read_web_config, self._path)
            self._reject_weaker(read.settings)
        except ConfigError as error:
            problems = "; ".join(map(str, error.problems))
            if self._failure.failed(problems):
                _log.error("web_config_reload_failed", problems=problems)
        else:
            self.current = read
            self._failure.recovered()
            _log.info("web_config_reloaded", file=str(self._path))

    def _reject_weaker(self, settings: WebSettings) -> None:
        """Raise ConfigError if a version protects less, as a truncated file does, or changes every URL."""
        old, new = _protection(self.current.settings), _protection(settings)
        changes = {key: "is weaker" if "." in key else "was removed" for key in old if new[key] < old[key]}
        if new["tls_server_config"] > old["tls_server_config"]:
            changes["tls_server_config"] = "was added"
        if changes:
            text = "; restart the exporter to apply this"
            raise ConfigError(
                [Problem(str(self._path), key, change + text) for key, change in changes.items()]
            )


class Passwords:
    """Compares passwords with bcrypt hashes in a thread, one at a time; caches digests of right ones.

    An unknown name takes as long as a known one: its password is compared with some user's hash. The name
    selects the user, so repeated requests for a name take equally long where costs differ.
    """

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._right: set[bytes] = set()
        self._lock, self._waiting = asyncio.Lock(), 0

    async def match(self, users: Mapping[str, SecretStr], name: str, password: bytes) -> bool:
        """Return whether ``password`` is that of the user ``name``, or raise asyncio.QueueFull."""
        password = password[:_SIGNIFICANT_BYTES]
        chosen = int.from_bytes(self._digest(name.encode("utf-8", "surrogateescape"))) % len(users)
        hashed = (users.get(name) or list(users.values())[chosen]).get_secret_value()
        key = self._digest(hashed.encode() + password)  # all hashes have the same length
        if name in users and key in self._right:
            return True
        if self._waiting >= MAX_CONNECTIONS:
            raise asyncio.QueueFull
        self._waiting += 1
        try:
            async with self._lock:
                if name in users and key in self._right:  # another request has compared it meanwhile
                    return True
                is_right = await PASSWORDS.run(_matches, password, hashed) and name in users
        finally:
            self._waiting -= 1
        if is_right:
            self._right = {key} if len(self._right) >= _MAX_CACHED else self._right | {key}
        return is_right

    def _digest(self, text: bytes) -> bytes:
        return blake2b(text, key=self._secret).digest()


def _matches(password: bytes, password_hash: str) -> bool:
    """Compare in constant time for a given cost. bcrypt releases the GIL, so other threads run."""
    import bcrypt

    return bcrypt.checkpw(password, password_hash.encode())


class Guard:
    """Accepts or rejects requests by the web configuration that is active at the moment of the request."""

    def __init__(self, live: LiveWebConfig) -> None:
        self._live, self._passwords = live, Passwords()

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Pass a request on, or reject it and close the connection: clients without access hold none."""
        users = self._live.current.settings.basic_auth_users
        credentials = _credentials(request.headers.get(hdrs.AUTHORIZATION, ""))
        try:
            is_known = not users or (credentials and await self._passwords.match(users, *credentials))
        except asyncio.QueueFull:
            text = "Too many passwords wait to be checked; retry later."
            return error_response(HTTPStatus.SERVICE_UNAVAILABLE, text, close=True)
        if not is_known:
            return error_response(HTTPStatus.UNAUTHORIZED, "Unauthorized", headers=_CHALLENGE, close=True)
        return await handler(request)


def _credentials(header: str) -> tuple[str, bytes] | None:
    """Return user and password of an ``Authorization`` header; None if it is not valid Basic."""
    scheme, _, encoded = header.partition(" ")
    try:
        name, colon, password = b64decode(encoded.strip(), validate=True).partition(b":")
    except ValueError:
        return None
    if scheme.lower() != "basic" or not colon:
        return None
    return name.decode("utf-8", "surrogateescape"), password
