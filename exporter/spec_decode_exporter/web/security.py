"""Access control by ``--web.config.file``: TLS, passwords, rate limit; the format of exporter-toolkit.

Settings that Python's TLS does not support are rejected. So are settings that silently disable protection.
"""

from __future__ import annotations

import asyncio
import binascii
import re
import secrets
import ssl
from base64 import b64decode
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from http import HTTPStatus
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import structlog
from aiohttp import hdrs, web
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, SecretStr, WithJsonSchema

from spec_decode_exporter.config.mistakes import ConfigError, Mistake, MistakesError, Problem
from spec_decode_exporter.config.source import read_source
from spec_decode_exporter.config.types import (
    Context,
    NotEmpty,
    ReadableFile,
    Section,
    matches,
    parse_duration,
)
from spec_decode_exporter.core.files import Stamp, stamps
from spec_decode_exporter.core.recurring import OnceUntilRecovered, TokenBucket
from spec_decode_exporter.core.tasks import PASSWORDS, WEB_CONFIGURATION
from spec_decode_exporter.web.limits import LOCAL, client_address, error_response

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

    from spec_decode_exporter.core.clock import Clock

VERIFIED: Final = "RequireAndVerifyClientCert"
IF_GIVEN: Final = "VerifyClientCertIfGiven"
ClientAuth = Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"]
"""Client certificates, from the weakest requirement to the strongest."""
MIN_BCRYPT_COST: Final = 4
"""Minimum that bcrypt supports."""
MAX_BCRYPT_COST: Final = 16
"""Maximum cost of a bcrypt hash. Its comparison takes about 5 s; each step doubles the time."""
MAX_CHECKS: Final = 16
"""Passwords that wait to be compared."""
MAX_CHECKS_PER_CLIENT: Final = 8
"""Of these, passwords from one client address."""
CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks of the files."""

_UNVERIFIED: Final = frozenset({"RequestClientCert", "RequireAnyClientCert", "RequireClientCert"})
_VERIFY: Final = {"NoClientCert": ssl.CERT_NONE, IF_GIVEN: ssl.CERT_OPTIONAL, VERIFIED: ssl.CERT_REQUIRED}
_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_SAN_KINDS: Final = frozenset({"DNS", "email", "URI", "IP Address"})
"""Kinds of names in a certificate that ``client_allowed_sans`` can match, as Python's ssl names them."""
_HASH: Final = re.compile(r"\$2[aby]\$(?P<cost>\d\d)\$[./A-Za-z0-9]{53}", re.ASCII)
_HASH_SCHEMA: Final = {"type": "string", "pattern": r"^\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}$"}
_MAX_USERS: Final = 1000
_MAX_CACHED: Final = 128
"""Cached results of each kind. So wrong passwords, which have no limit, evict no right one."""
_SIGNIFICANT_BYTES: Final = 72
"""Bytes of a password that bcrypt reads; it ignores the rest."""
_SALT_LENGTH: Final = 29
"""Characters of a bcrypt hash before the digest: version, cost and salt."""
_CHALLENGE: Final[Mapping[str, str]] = {
    hdrs.WWW_AUTHENTICATE: 'Basic realm="spec-decode-exporter", charset="UTF-8"'
}

_log = structlog.get_logger()


def _supported_auth(value: object) -> object:
    if value in _UNVERIFIED:
        raise ValueError(
            f"cannot be {value}: Python's TLS cannot ask for a certificate that it does not verify; "
            f"write {VERIFIED} with a `client_ca_file`, or NoClientCert"
        )
    return value


def _supported_version(value: object) -> object:
    if value in ("TLS10", "TLS11"):
        raise ValueError(f"cannot be {value}: OpenSSL no longer supports it; write TLS12 or TLS13")
    return value


def _valid_users(users: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
    if not users:
        raise ValueError("is empty; add a user and the bcrypt hash of a password, or remove the key")
    if len(users) > _MAX_USERS:
        raise ValueError(f"names more than {_MAX_USERS} users; use client certificates, or a proxy")
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
    if not MIN_BCRYPT_COST <= int(match["cost"]) <= MAX_BCRYPT_COST:
        limits = f"{MIN_BCRYPT_COST} to {MAX_BCRYPT_COST}"
        return f"has a cost of {int(match['cost'])}: it must be {limits}; 10 is usual"
    return ""


class TlsServer(Section):
    """TLS of the server, and requirements on client certificates."""

    model_config = ConfigDict(json_schema_extra={"required": ["cert_file", "key_file"]})

    cert_file: ReadableFile | None = None
    key_file: ReadableFile | None = None
    client_auth_type: Annotated[ClientAuth, BeforeValidator(_supported_auth)] = "NoClientCert"
    client_ca_file: ReadableFile | None = None
    client_allowed_sans: Annotated[tuple[str, ...], NotEmpty] | None = None
    min_version: Annotated[Literal["TLS12", "TLS13"], BeforeValidator(_supported_version)] = "TLS12"

    def mistakes(self) -> Iterator[Mistake]:
        """Yield keys that are missing, or have no effect without another."""
        if self.cert_file is None:
            yield (), "has no certificate; add `cert_file`"
        if self.key_file is None:
            yield (), "has no key; add `key_file`"
        if self.client_ca_file is not None and self.client_auth_type == "NoClientCert":
            yield ("client_ca_file",), f"has no effect without `client_auth_type: {VERIFIED}`; add it"
        if self.client_ca_file is None and self.client_auth_type != "NoClientCert":
            yield (
                ("client_auth_type",),
                "needs `client_ca_file`: without it, a certificate of any public authority would be accepted",
            )
        if self.client_allowed_sans and self.client_auth_type != VERIFIED:
            yield ("client_allowed_sans",), f"needs `client_auth_type: {VERIFIED}`; add it"

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of new connections. Call it in a thread: it reads files.

        Raises:
            ValueError: A certificate or key is invalid; the text names it, but never shows its content.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[self.min_version]
        what = (
            f"{self.cert_file} with {self.key_file}: not a certificate and its key in PEM, without a password"
        )
        try:
            # OpenSSL would prompt for the password of an encrypted key; the empty password makes it fail.
            context.load_cert_chain(self.cert_file or "", self.key_file, password="")
            if self.client_ca_file:
                what = f"{self.client_ca_file}: not a certificate in PEM"
                context.load_verify_locations(self.client_ca_file)
        except (OSError, ValueError, TypeError) as error:  # ssl.SSLError is an OSError; no text has a key
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None)
            is_named = reason and (isinstance(error, ssl.SSLError) or not isinstance(error, ValueError))
            raise ValueError(f"cannot be used: {what} ({reason if is_named else 'no PEM in it'})") from None
        context.verify_mode = _VERIFY[self.client_auth_type]
        return context

    def allows(self, certificate: Mapping[str, Any] | None) -> bool:
        """Return whether the client's verified certificate has one of the allowed names."""
        sans = [san for san in (certificate or {}).get("subjectAltName", ()) if san[0] in _SAN_KINDS]
        found = {_address(name) if kind == "IP Address" else name for kind, name in sans}
        return self.client_allowed_sans is None or not found.isdisjoint(self.client_allowed_sans)


def _address(name: str) -> str:
    """Format an address as Go does: Python writes an IPv6 address in full, in upper case."""
    try:
        return str(ip_address(name.strip()))
    except ValueError:
        return name


class RateLimit(Section):
    """Rate limit: ``burst`` requests immediately, and one more per ``interval`` in seconds."""

    interval: Annotated[
        float, BeforeValidator(parse_duration), WithJsonSchema({"type": ["string", "integer"]})
    ] = 0.0
    burst: Annotated[int, Field(ge=0)] = 0

    def mistakes(self) -> Iterator[Mistake]:
        """Yield a limit that rejects every request."""
        if self.interval and not self.burst:
            yield (), "would reject every request; add a `burst` of at least 1"


Users = Annotated[
    Mapping[Annotated[str, matches(r"[^\x00-\x1f\x7f]*", "is not a user name")], SecretStr],
    AfterValidator(_valid_users),
    WithJsonSchema({"type": "object", "minProperties": 1, "additionalProperties": _HASH_SCHEMA}),
]


class WebSettings(Section):
    """A web configuration."""

    tls_server_config: TlsServer | None = None
    rate_limit: RateLimit = Field(default_factory=RateLimit)
    basic_auth_users: Users | None = None


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
    tls, context = settings.tls_server_config, None
    try:
        context = tls.context() if tls else None
    except ValueError as error:
        source.add_problem(("tls_server_config",), str(error))
    if settings.basic_auth_users and find_spec("bcrypt") is None:
        source.add_problem(
            ("basic_auth_users",), "needs bcrypt; install it with `pip install 'spec-decode-exporter[auth]'`"
        )
    source.refuse()
    named = (tls.cert_file, tls.key_file, tls.client_ca_file) if tls else ()
    return WebConfig(settings, context, (path, *filter(None, named)))


class LiveWebConfig:
    """The web configuration of ``--web.config.file``. An invalid or weaker version is not adopted."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Read the configuration.

        Raises:
            ConfigError: It is invalid.
        """
        self._path = path
        self._clock = clock
        self._failure = OnceUntilRecovered()
        self.current, self._stamps = _read(path)
        self._seen = self._stamps

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
        """Adopt changed files that were equal at two checks: others are perhaps not yet written completely.

        An invalid version is logged once, and the previous one stays active.
        """
        found = await WEB_CONFIGURATION.run(stamps, self.current.files)
        is_quiet, self._seen = found == self._seen, found
        if not is_quiet or (self.successful and found == self._stamps):
            return
        try:
            read, before = await WEB_CONFIGURATION.run(_read, self._path)
            self._reject_weaker(read.settings)
        except ConfigError as error:
            problems = "; ".join(map(str, error.problems))
            if self._failure.failed(problems):
                _log.error("web_config_reload_failed", problems=problems)
        else:
            self.current, self._stamps, self._seen = read, before, before
            self._failure.recovered()
            _log.info("web_config_reloaded", file=str(self._path))

    def _reject_weaker(self, new: WebSettings) -> None:
        """Reject a version with less protection, such as a file that was truncated.

        Raises:
            ConfigError: Protection is removed or weaker, or the scheme of every URL changes.
        """
        old, found = dict(_protection(self.current.settings)), dict(_protection(new))
        changed = {
            key: "is weaker" if key in found else "was removed"
            for key, strength in old.items()
            if found.get(key, 0) < strength
        }
        if "tls_server_config" in found.keys() - old.keys():
            changed["tls_server_config"] = "was added"
        if changed:
            text = "; restart the exporter to apply this"
            raise ConfigError(
                [Problem(str(self._path), key, change + text) for key, change in changed.items()]
            )


def _protection(settings: WebSettings) -> Iterator[tuple[str, int]]:
    """Yield the keys that protect, with a number that is greater the stronger they protect."""
    if settings.basic_auth_users:
        yield "basic_auth_users", 1
    tls = settings.tls_server_config
    if tls is not None:
        yield "tls_server_config", 1
        yield "tls_server_config.client_auth_type", list(_VERIFY).index(tls.client_auth_type)
        yield "tls_server_config.client_allowed_sans", bool(tls.client_allowed_sans)
        yield "tls_server_config.min_version", list(_VERSIONS).index(tls.min_version)


def _read(path: Path) -> tuple[WebConfig, tuple[Stamp | None, ...]]:
    """Read the files, with stamps from before, so that the next check notices a change in between."""
    before = stamps(read_web_config(path).files)
    return read_web_config(path), before


class TooManyChecksError(Exception):
    """Too many passwords wait to be compared."""


class Passwords:
    """Compares passwords with bcrypt hashes in a thread, one at a time; caches digests, never a password.

    An unknown name takes as long as a known one: its password is compared with a hash that matches nothing.
    That hash has the cost of some user's hash. The name selects the user, so repeated requests for a name
    take equally long where costs differ.
    """

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._cache: dict[bool, OrderedDict[bytes, None]] = {True: OrderedDict(), False: OrderedDict()}
        self._lock = asyncio.Lock()
        self._waiting: Counter[str] = Counter()
        """Number of checks that wait, by client address."""

    async def match(
        self, users: Mapping[str, SecretStr], name: str, password: bytes, address: str = LOCAL
    ) -> bool:
        """Return whether ``password`` is that of the user ``name``, for a client counted by ``address``.

        Raises:
            TooManyChecksError: Too many checks of this address wait.
        """
        password = password[:_SIGNIFICANT_BYTES]
        known = users.get(name)
        user = self._digest(name.encode("utf-8", "surrogateescape"))
        password_hash = (known or self._unmatchable(users, user)).get_secret_value()
        key = self._digest(password_hash.encode(), user, password)
        if (result := self._cached(key)) is not None:
            return result
        if self._waiting[address] >= (MAX_CHECKS_PER_CLIENT if self._waiting.total() < MAX_CHECKS else 1):
            raise TooManyChecksError
        self._waiting[address] += 1
        try:
            async with self._lock:
                result = self._cached(key)
                if result is None:
                    result = await PASSWORDS.run(_matches, password, password_hash) and known is not None
                    self._store(key, result)
        finally:
            self._waiting[address] -= 1
            self._waiting += Counter()  # keeps the addresses with checks only
        return result

    def _cached(self, key: bytes) -> bool | None:
        for result, keys in self._cache.items():
            if key in keys:
                keys.move_to_end(key)
                return result
        return None

    def _store(self, key: bytes, result: bool) -> None:  # noqa: FBT001
        keys = self._cache[result]
        keys[key] = None
        if len(keys) > _MAX_CACHED:
            keys.popitem(last=False)

    def _unmatchable(self, users: Mapping[str, SecretStr], user: bytes) -> SecretStr:
        """Return a hash that no password matches, with the cost of some user's hash."""
        hashes = [each.get_secret_value() for each in users.values()]
        chosen = hashes[int.from_bytes(user) % len(hashes)]
        return SecretStr(chosen[:_SALT_LENGTH] + "." * (len(chosen) - _SALT_LENGTH))

    def _digest(self, *parts: bytes) -> bytes:
        """Return a keyed digest of the parts with their lengths, so that different splits differ."""
        digest = blake2b(key=self._secret, digest_size=32)
        for part in parts:
            digest.update(len(part).to_bytes(8))
            digest.update(part)
        return digest.digest()


def _matches(password: bytes, password_hash: str) -> bool:
    """Compare in constant time for a given cost. bcrypt releases the GIL, so other threads run."""
    import bcrypt

    return bcrypt.checkpw(password, password_hash.encode())


class Guard:
    """Accepts or rejects requests by the web configuration that is active at the moment of the request."""

    def __init__(self, live: LiveWebConfig, clock: Clock) -> None:
        self._live = live
        self._clock = clock
        self._passwords = Passwords()
        self._limit: RateLimit | None = None
        self._bucket: TokenBucket | None = None

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Pass a request on, or reject it and close the connection: clients without access hold none."""
        users = self._live.current.settings.basic_auth_users
        credentials = _credentials(request.headers.get(hdrs.AUTHORIZATION, ""))
        address = client_address(request.transport)
        if not self._is_within_rate():
            text = "Too many requests; retry later."
            return error_response(HTTPStatus.TOO_MANY_REQUESTS, text, retry_after=1, close=True)
        try:
            is_known = credentials and users and await self._passwords.match(users, *credentials, address)
        except TooManyChecksError:
            text = "Too many passwords wait to be checked; retry later."
            return error_response(HTTPStatus.SERVICE_UNAVAILABLE, text, retry_after=1, close=True)
        if users and not is_known:
            return error_response(HTTPStatus.UNAUTHORIZED, "Unauthorized", headers=_CHALLENGE, close=True)
        return await handler(request)

    def _is_within_rate(self) -> bool:
        limit = self._live.current.settings.rate_limit
        if limit != self._limit:
            self._limit = limit
            now = self._clock.monotonic
            self._bucket = TokenBucket(limit.burst, limit.interval, now) if limit.interval else None
        return self._bucket is None or self._bucket.take()


def _credentials(header: str) -> tuple[str, bytes] | None:
    """Return user and password of an ``Authorization`` header; None if it is not valid Basic."""
    scheme, _, encoded = header.partition(" ")
    try:
        name, colon, password = b64decode(encoded.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    if scheme.lower() != "basic" or not colon:
        return None
    return name.decode("utf-8", "surrogateescape"), password
