"""Schema of the web configuration: exporter-toolkit's keys, defaults and semantics.

Settings that Python's TLS does not support are rejected. So are settings that silently disable protection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    WithJsonSchema,
)

from spec_decode_exporter.config.mistakes import Mistake, MistakesError
from spec_decode_exporter.config.types import NotEmpty, ReadableFile, Section, matches, parse_duration

VERIFIED: Final = "RequireAndVerifyClientCert"
IF_GIVEN: Final = "VerifyClientCertIfGiven"
ClientAuth = Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"]
"""Client certificates, from the weakest requirement to the strongest."""
_UNVERIFIED: Final = frozenset({"RequestClientCert", "RequireAnyClientCert", "RequireClientCert"})

MAX_BCRYPT_COST: Final = 16
"""Maximum cost of a bcrypt hash. Its comparison takes about 5 s; each step doubles the time."""
MIN_BCRYPT_COST: Final = 4
"""Minimum that bcrypt supports."""

_HASH: Final = re.compile(r"\$2[aby]\$(?P<cost>\d\d)\$[./A-Za-z0-9]{53}", re.ASCII)
_HASH_SCHEMA: Final = {"type": "string", "pattern": r"^\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}$"}
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
