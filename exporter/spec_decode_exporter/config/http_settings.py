"""HTTP settings of a request: the keys of Prometheus' ``scrape_config``, with its names and rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

from pydantic import Field

from spec_decode_exporter.config.mistakes import Mistake
from spec_decode_exporter.config.types import (
    NotEmpty,
    Public,
    ReadableFile,
    Secret,
    Section,
    excludes,
    matches,
    refuses,
)

_RESERVED_HEADERS: Final = (
    "accept accept-encoding authorization connection content-encoding content-length content-type host "
    "keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade user-agent "
    "www-authenticate"
)
"""Headers that the client sets, or that would change the kind of request."""


# fmt: off
Token = matches(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "is not a word that a header may hold: letters, digits and hyphens")
Scheme = Annotated[str, Token, refuses(lambda scheme: "cannot be Basic; use `basic_auth` with a username and a password" if scheme.lower() == "basic" else None)]
HeaderName = Annotated[str, Token, refuses(lambda name: "is a header that the exporter sets itself; remove it, or use `authorization` or `basic_auth`" if name.lower() in _RESERVED_HEADERS.split() else None)]
HeaderText = Annotated[str, Public, matches(r"[\x20-\x7e]*", "is not a header's value: it must be one line of visible ASCII characters")]


class Authorization(Section):
    """The `Authorization` header."""

    type: Scheme = Field(default="Bearer", description="Scheme of the header.")
    credentials: Secret | None = Field(default=None, description="Token, as a variable `${NAME}`.")
    credentials_file: Annotated[ReadableFile | None, excludes("credentials")] = Field(default=None, description="A file with the token. Changes are applied without a reload.")

    def mistakes(self) -> Iterator[Mistake]:
        """Yield a missing token."""
        if self.credentials is None and self.credentials_file is None:
            yield (), "has no token; add `credentials_file`"


class BasicAuth(Section):
    """User and password in the `Authorization` header."""

    username: str = Field(description="User name.")
    password: Secret | None = Field(default=None, description="Password, as a variable `${NAME}`.")
    password_file: Annotated[ReadableFile | None, excludes("password")] = Field(default=None, description="A file with the password. Changes are applied without a reload.")


class TlsConfig(Section):
    """TLS: the authorities to trust, and the client certificate."""

    ca_file: ReadableFile | None = Field(default=None, description="A file with the certificate authorities to trust; without one, the system's.")
    cert_file: ReadableFile | None = Field(default=None, description="A file with the client certificate, as PEM.")
    key_file: ReadableFile | None = Field(default=None, description="A file with the client key, as PEM.")
    server_name: str | None = Field(default=None, description="Name in the server certificate, if it is not the host name.")
    insecure_skip_verify: bool = Field(default=False, description="Trust any certificate. An attacker on the network can then read and change the page.")

    def mistakes(self) -> Iterator[Mistake]:
        """Yield a certificate without its key, or the reverse."""
        if (self.cert_file is None) != (self.key_file is None):
            missing, given = ("key_file", "certificate") if self.cert_file else ("cert_file", "key")
            yield (), f"has a {given} alone; add `{missing}`"


class HeaderValues(Section):
    """The values of one header; several are sent as a list with commas."""

    values: Annotated[tuple[HeaderText, ...], NotEmpty] = Field(description="Public values.")


class HttpSettings(Section):
    """HTTP settings of requests. ``HttpSettings()`` has no credentials."""

    authorization: Authorization | None = Field(default=None, description="The `Authorization` header.")
    basic_auth: Annotated[BasicAuth | None, excludes("authorization")] = Field(default=None, description="User and password in the `Authorization` header.")
    tls_config: TlsConfig | None = Field(default=None, description="TLS settings, for https addresses.")
    http_headers: Mapping[HeaderName, HeaderValues] = Field(default_factory=dict, description="Further headers, by name.")

    @property
    def http(self) -> HttpSettings:
        """The HTTP keys of a section that has further keys."""
        return HttpSettings.model_construct(**{name: getattr(self, name) for name in HttpSettings.model_fields})

    def __hash__(self) -> int:
        """Hash the headers as pairs, because a mapping has no hash."""
        headers = frozenset(self.http_headers.items())
        return hash((self.authorization, self.basic_auth, self.tls_config, headers))
# fmt: on
