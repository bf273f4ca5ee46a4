"""The keys of a web configuration: exporter-toolkit's, with its names, its defaults and its meaning.

What Python's TLS cannot do, and what would leave the exporter open without saying so, is refused.
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

from spec_decode_exporter.config.errors import MistakesError
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
"""The cipher suites of TLS 1.2 that Go calls secure, and what OpenSSL calls them."""

CIPHERS_OF_TLS13: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)
"""Those of TLS 1.3 are always all there, in Go as here: to name them changes nothing."""

CURVES: Final = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}
"""The curves, and what OpenSSL calls them."""

VERIFIED: Final = "RequireAndVerifyClientCert"
IF_GIVEN: Final = "VerifyClientCertIfGiven"
ClientAuth = Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"]
"""What clients must show, from nothing on."""
_UNVERIFIED: Final = frozenset({"RequestClientCert", "RequireAnyClientCert", "RequireClientCert"})

HEADERS: Final[Mapping[str, tuple[str, ...]]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
"""The headers that may be set, and the values that they may have; without any, whatever a header may hold."""

MOST_COST: Final = 16
"""The highest cost of a bcrypt hash: one comparison takes some 5 s then, and each step more twice as long."""

_HASH: Final = re.compile(r"\$2[aby]\$(?P<cost>\d\d)\$[./A-Za-z0-9]{53}", re.ASCII)
_HASH_SCHEMA: Final = {"type": "string", "pattern": r"^\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}$"}
_HEADER_TEXT: Final = re.compile(r"[\x20-\x7e]+")
_MOST_USERS: Final = 1000


def _known_auth(value: object) -> object:
    if value in _UNVERIFIED:
        raise ValueError(
            f"cannot be {value}: Python's TLS cannot ask for a certificate that it does not verify; "
            f"write {VERIFIED} with a `client_ca_file`, or NoClientCert"
        )
    return value


def _known_version(value: object) -> object:
    if value in ("TLS10", "TLS11"):
        raise ValueError(f"cannot be {value}: OpenSSL no longer speaks it; write TLS12 or TLS13")
    return value


def _known_cipher(name: str) -> str:
    if name not in CIPHERS and name not in CIPHERS_OF_TLS13:
        known = ", ".join([*CIPHERS, *CIPHERS_OF_TLS13])
        raise ValueError(f"is not a cipher suite that is known to be safe; there are {known}")
    return name


def _known_curve(name: str) -> str:
    if name not in CURVES:
        raise ValueError(f"is not a curve that is known here; there are {', '.join(CURVES)}")
    return name


def _one(curves: tuple[str, ...]) -> tuple[str, ...]:
    if len(curves) > 1:
        raise ValueError(
            "names several curves, but Python's TLS can offer all that OpenSSL has, or a single one; "
            "name one, or remove the key"
        )
    return curves


def _interval(value: object) -> float:
    return (
        value if isinstance(value, int | float) else parse_duration(value if isinstance(value, str) else "")
    )


def _no_http2(value: bool) -> bool:  # noqa: FBT001
    if value:
        raise ValueError(
            "cannot be true: the exporter's HTTP server has no HTTP/2; remove the key, or write false. "
            "Prometheus and browsers use HTTP/1.1 then"
        )
    return value


def _known_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    mistakes = [((name,), wrong) for name, value in headers.items() if (wrong := _wrong_header(name, value))]
    if mistakes:
        raise MistakesError(mistakes)
    return headers


def _wrong_header(name: str, value: str) -> str:
    if name not in HEADERS:
        return f"is not a header that can be set; there are {', '.join(HEADERS)}"
    if HEADERS[name] and value not in HEADERS[name]:
        return f"must be {' or '.join(HEADERS[name])}"
    if not _HEADER_TEXT.fullmatch(value):
        return "is not a header's value: it must be one line of visible ASCII characters"
    return ""


def _known_users(users: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
    if not users:
        raise ValueError("names nobody; add a user and the bcrypt hash of a password, or remove the key")
    if len(users) > _MOST_USERS:
        raise ValueError(f"names more than {_MOST_USERS} users; use client certificates, or a proxy")
    mistakes = [((name,), wrong) for name, value in users.items() if (wrong := _wrong_user(name, value))]
    if mistakes:
        raise MistakesError(mistakes)
    return users


def _wrong_user(name: str, value: SecretStr) -> str:
    """Say what is wrong with a user. The hash is never repeated."""
    match = _HASH.fullmatch(value.get_secret_value())
    if ":" in name or not name:
        return "is not a user's name: it must not be empty nor hold a colon"
    if match is None:
        return "is not a bcrypt hash; make one with `htpasswd -nBC 10 '' | tr -d ':\\n'`"
    if not 4 <= int(match["cost"]) <= MOST_COST:  # noqa: PLR2004  the least that bcrypt knows
        return f"has a cost of {int(match['cost'])}: it must be 4 to {MOST_COST}; 10 is usual"
    return ""


def _one_of_each(schema: dict[str, Any]) -> None:
    schema["allOf"] = [
        {"anyOf": [{"required": [key]}, {"required": [f"{key}_file"]}]} for key in ("cert", "key")
    ]


class TlsServer(Section):
    """TLS, and which certificates clients must show."""

    model_config = ConfigDict(json_schema_extra=_one_of_each)

    cert: str | None = None
    cert_file: Annotated[ReadableFile | None, excludes("cert")] = None
    key: SecretStr | None = None
    key_file: Annotated[ReadableFile | None, excludes("key")] = None
    client_auth_type: Annotated[ClientAuth, BeforeValidator(_known_auth)] = "NoClientCert"
    client_ca: str | None = None
    client_ca_file: Annotated[ReadableFile | None, excludes("client_ca")] = None
    client_allowed_sans: Annotated[tuple[str, ...], NotEmpty] | None = None
    min_version: Annotated[Literal["TLS12", "TLS13"], BeforeValidator(_known_version)] = "TLS12"
    max_version: Annotated[Literal["TLS12", "TLS13"], BeforeValidator(_known_version)] = "TLS13"
    cipher_suites: tuple[Annotated[str, AfterValidator(_known_cipher)], ...] = ()
    prefer_server_cipher_suites: bool = True
    curve_preferences: Annotated[
        tuple[Annotated[str, AfterValidator(_known_curve)], ...], AfterValidator(_one)
    ] = ()

    @model_validator(mode="after")
    def _complete(self) -> Self:
        mistakes = list(self._mistakes())
        if mistakes:
            raise MistakesError(mistakes)
        return self

    def _mistakes(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        authority = self.client_ca is not None or self.client_ca_file is not None
        if self.cert is None and self.cert_file is None:
            yield (), "has no certificate; add `cert_file`"
        if self.key is None and self.key_file is None:
            yield (), "has no key; add `key_file`"
        if authority and self.client_auth_type == "NoClientCert":
            given = "client_ca_file" if self.client_ca_file else "client_ca"
            yield (given,), f"is of no use without `client_auth_type: {VERIFIED}`; add it"
        if not authority and self.client_auth_type != "NoClientCert":
            yield (
                ("client_auth_type",),
                "needs `client_ca_file`: without one, any certificate of any public authority would do",
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
        """The cipher suites that are chosen, as OpenSSL calls them; none is all that are safe."""
        return tuple(CIPHERS[name] for name in self.cipher_suites if name in CIPHERS)


class HttpServer(Section):
    """What answers carry."""

    http2: Annotated[bool, AfterValidator(_no_http2)] = False
    headers: Annotated[Mapping[str, str], AfterValidator(_known_headers)] = Field(default_factory=dict)


class RateLimit(Section):
    """How many requests are answered: ``burst`` at once, and one more after each ``interval`` (seconds)."""

    interval: Annotated[
        float, BeforeValidator(_interval), WithJsonSchema({"type": ["string", "integer"]})
    ] = 0.0
    burst: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _lets_something_in(self) -> Self:
        if self.interval and not self.burst:
            raise ValueError("would refuse every request; add a `burst` of at least 1")
        return self


Users = Annotated[
    Mapping[Annotated[str, matches(r"[^\x00-\x1f\x7f]*", "is not a user's name")], SecretStr],
    AfterValidator(_known_users),
    WithJsonSchema({"type": "object", "minProperties": 1, "additionalProperties": _HASH_SCHEMA}),
]


class WebSettings(Section):
    """A web configuration."""

    tls_server_config: TlsServer | None = None
    http_server_config: HttpServer = Field(default_factory=HttpServer)
    rate_limit: RateLimit = Field(default_factory=RateLimit)
    basic_auth_users: Users | None = None

    @model_validator(mode="after")
    def _no_promise_without_tls(self) -> Self:
        name = "Strict-Transport-Security"
        if name in self.http_server_config.headers and self.tls_server_config is None:
            raise MistakesError(
                [
                    (
                        ("http_server_config", "headers", name),
                        "is for use with `tls_server_config`; browsers ignore it without TLS",
                    )
                ]
            )
        return self
