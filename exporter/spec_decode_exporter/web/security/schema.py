"""Schema of the web configuration: exporter-toolkit's keys, defaults and semantics.

Settings that Python's TLS does not support are rejected. So are settings that silently disable protection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    WithJsonSchema,
    model_validator,
)

from spec_decode_exporter.config.errors import ProblemsError
from spec_decode_exporter.config.http_settings import Section
from spec_decode_exporter.config.units import parse_duration
from spec_decode_exporter.config.values import NotEmpty, ReadableFile, excludes, matches

CIPHERS: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
"""Secure cipher suites of TLS 1.2: Go's name to OpenSSL's."""

CIPHERS_OF_TLS13: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)
"""Cipher suites of TLS 1.3. All are always enabled, as in Go, so their selection has no effect."""

CURVES: Final = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}
"""Elliptic curves: Go's name to OpenSSL's."""

VERIFIED: Final = "RequireAndVerifyClientCert"
IF_GIVEN: Final = "VerifyClientCertIfGiven"
ClientAuth = Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"]
"""Client certificates, from the weakest requirement to the strongest."""
_UNVERIFIED: Final = frozenset({"RequestClientCert", "RequireAnyClientCert", "RequireClientCert"})

HEADERS: Final[Mapping[str, tuple[str, ...]]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
"""Supported headers and their allowed values; empty allows any header value."""

MAX_BCRYPT_COST: Final = 16
"""Maximum cost of a bcrypt hash. Its comparison takes about 5 s; each step doubles the time."""
MIN_BCRYPT_COST: Final = 4
"""Minimum that bcrypt supports."""

_HASH: Final = re.compile(r"\$2[aby]\$(?P<cost>\d\d)\$[./A-Za-z0-9]{53}", re.ASCII)
_HASH_SCHEMA: Final = {"type": "string", "pattern": r"^\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}$"}
_HEADER_TEXT: Final = re.compile(r"[\x20-\x7e]+")
_MAX_USERS: Final = 1000


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


def _secure_cipher(name: str) -> str:
    if name not in CIPHERS and name not in CIPHERS_OF_TLS13:
        known = ", ".join([*CIPHERS, *CIPHERS_OF_TLS13])
        raise ValueError(f"is not a secure cipher suite; there are {known}")
    return name


def _supported_curve(name: str) -> str:
    if name not in CURVES:
        raise ValueError(f"is not a supported curve; there are {', '.join(CURVES)}")
    return name


def _single_curve(curves: tuple[str, ...]) -> tuple[str, ...]:
    if len(curves) > 1:
        raise ValueError(
            "names several curves, but Python's TLS supports a single one, or all of OpenSSL; "
            "name one, or remove the key"
        )
    return curves


def _interval(value: object) -> float:
    return (
        value if isinstance(value, int | float) else parse_duration(value if isinstance(value, str) else "")
    )


def _reject_http2(value: bool) -> bool:  # noqa: FBT001
    if value:
        raise ValueError(
            "cannot be true: the exporter's HTTP server does not support HTTP/2; remove the key, or write "
            "false. Prometheus and browsers then use HTTP/1.1"
        )
    return value


def _supported_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    mistakes = [((name,), error) for name, value in headers.items() if (error := _header_error(name, value))]
    if mistakes:
        raise ProblemsError(mistakes)
    return headers


def _header_error(name: str, value: str) -> str:
    if name not in HEADERS:
        return f"is not a supported header; there are {', '.join(HEADERS)}"
    if HEADERS[name] and value not in HEADERS[name]:
        return f"must be {' or '.join(HEADERS[name])}"
    if not _HEADER_TEXT.fullmatch(value):
        return "is not a header value: it must be one line of printable ASCII characters"
    return ""


def _valid_users(users: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
    if not users:
        raise ValueError("is empty; add a user and the bcrypt hash of a password, or remove the key")
    if len(users) > _MAX_USERS:
        raise ValueError(f"names more than {_MAX_USERS} users; use client certificates, or a proxy")
    mistakes = [((name,), error) for name, value in users.items() if (error := _user_error(name, value))]
    if mistakes:
        raise ProblemsError(mistakes)
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


def _one_of_each(schema: dict[str, Any]) -> None:
    schema["allOf"] = [
        {"anyOf": [{"required": [key]}, {"required": [f"{key}_file"]}]} for key in ("cert", "key")
    ]


class TlsServer(Section):
    """TLS of the server, and requirements on client certificates."""

    model_config = ConfigDict(json_schema_extra=_one_of_each)

    cert: str | None = None
    cert_file: Annotated[ReadableFile | None, excludes("cert")] = None
    key: SecretStr | None = None
    key_file: Annotated[ReadableFile | None, excludes("key")] = None
    client_auth_type: Annotated[ClientAuth, BeforeValidator(_supported_auth)] = "NoClientCert"
    client_ca: str | None = None
    client_ca_file: Annotated[ReadableFile | None, excludes("client_ca")] = None
    client_allowed_sans: Annotated[tuple[str, ...], NotEmpty] | None = None
    min_version: Annotated[Literal["TLS12", "TLS13"], BeforeValidator(_supported_version)] = "TLS12"
    max_version: Annotated[Literal["TLS12", "TLS13"], BeforeValidator(_supported_version)] = "TLS13"
    cipher_suites: tuple[Annotated[str, AfterValidator(_secure_cipher)], ...] = ()
    prefer_server_cipher_suites: bool = True
    curve_preferences: Annotated[
        tuple[Annotated[str, AfterValidator(_supported_curve)], ...], AfterValidator(_single_curve)
    ] = ()

    @model_validator(mode="after")
    def _complete(self) -> Self:
        mistakes = list(self._mistakes())
        if mistakes:
            raise ProblemsError(mistakes)
        return self

    def _mistakes(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        authority = self.client_ca is not None or self.client_ca_file is not None
        if self.cert is None and self.cert_file is None:
            yield (), "has no certificate; add `cert_file`"
        if self.key is None and self.key_file is None:
            yield (), "has no key; add `key_file`"
        if authority and self.client_auth_type == "NoClientCert":
            key = "client_ca_file" if self.client_ca_file else "client_ca"
            yield (key,), f"has no effect without `client_auth_type: {VERIFIED}`; add it"
        if not authority and self.client_auth_type != "NoClientCert":
            yield (
                ("client_auth_type",),
                "needs `client_ca_file`: without it, a certificate of any public authority would be accepted",
            )
        if self.client_allowed_sans and self.client_auth_type != VERIFIED:
            yield ("client_allowed_sans",), f"needs `client_auth_type: {VERIFIED}`; add it"
        if self.max_version < self.min_version:
            yield ("max_version",), "is below `min_version`; swap them"
        if self.cipher_suites and self.min_version == "TLS12" and not self.ciphers_of_tls12:
            yield (
                ("cipher_suites",),
                "names no cipher suite of TLS 1.2; add one, or `min_version: TLS13`",
            )

    @property
    def ciphers_of_tls12(self) -> tuple[str, ...]:
        """OpenSSL's names of the selected cipher suites; empty selects all secure ones."""
        return tuple(CIPHERS[name] for name in self.cipher_suites if name in CIPHERS)


class HttpServer(Section):
    """HTTP version and headers of responses."""

    http2: Annotated[bool, AfterValidator(_reject_http2)] = False
    headers: Annotated[Mapping[str, str], AfterValidator(_supported_headers)] = Field(default_factory=dict)


class RateLimit(Section):
    """Rate limit: ``burst`` requests immediately, and one more per ``interval`` in seconds."""

    interval: Annotated[
        float, BeforeValidator(_interval), WithJsonSchema({"type": ["string", "integer"]})
    ] = 0.0
    burst: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _admits_requests(self) -> Self:
        if self.interval and not self.burst:
            raise ValueError("would reject every request; add a `burst` of at least 1")
        return self


Users = Annotated[
    Mapping[Annotated[str, matches(r"[^\x00-\x1f\x7f]*", "is not a user name")], SecretStr],
    AfterValidator(_valid_users),
    WithJsonSchema({"type": "object", "minProperties": 1, "additionalProperties": _HASH_SCHEMA}),
]


class WebSettings(Section):
    """A web configuration."""

    tls_server_config: TlsServer | None = None
    http_server_config: HttpServer = Field(default_factory=HttpServer)
    rate_limit: RateLimit = Field(default_factory=RateLimit)
    basic_auth_users: Users | None = None

    @model_validator(mode="after")
    def _hsts_needs_tls(self) -> Self:
        name = "Strict-Transport-Security"
        if name in self.http_server_config.headers and self.tls_server_config is None:
            raise ProblemsError(
                [
                    (
                        ("http_server_config", "headers", name),
                        "needs `tls_server_config`; browsers ignore it without TLS",
                    )
                ]
            )
        return self
