"""How to ask a server: the keys of Prometheus' ``scrape_config``, with its names and its rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from spec_decode_exporter.config.values import Public, ReadableFile, Secret, excludes, matches

_RESERVED_HEADERS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "www-authenticate",
    }
)
"""Headers that the client sets by itself, or that would change what the request is."""


class Section(BaseModel):
    """A mapping of the configuration: frozen, and a key it does not know is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def _not_basic(value: str) -> str:
    if value.lower() == "basic":
        raise ValueError("cannot be Basic; use `basic_auth` with a username and a password instead")
    return value


def _free_header(name: str) -> str:
    if name.lower() in _RESERVED_HEADERS:
        remedy = "use `authorization` or `basic_auth`" if name.lower() == "authorization" else "remove it"
        raise ValueError(f"is a header that the exporter sets by itself; {remedy}")
    return name


Token = matches(
    r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "is not a word that a header may hold: letters, digits and hyphens"
)
HeaderName = Annotated[str, Token, AfterValidator(_free_header)]
HeaderText = Annotated[
    str,
    Public,
    matches(r"[\x20-\x7e]*", "is not a header's value: it must be one line of visible ASCII characters"),
]


class Authorization(Section):
    """The `Authorization` header."""

    type: Annotated[str, Token, AfterValidator(_not_basic)] = Field(
        default="Bearer", description="The scheme of the header."
    )
    credentials: Secret | None = Field(
        default=None, description="The token, taken from the environment as `${NAME}`."
    )
    credentials_file: Annotated[ReadableFile | None, excludes("credentials")] = Field(
        default=None, description="The file that holds the token. It is read again when it changes."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.credentials is None and self.credentials_file is None:
            raise ValueError("has no token; add `credentials_file`")
        return self


class BasicAuth(Section):
    """User and password in the `Authorization` header."""

    username: str | None = Field(default=None, description="The user.")
    username_file: Annotated[ReadableFile | None, excludes("username")] = Field(
        default=None, description="The file that holds the user."
    )
    password: Secret | None = Field(
        default=None, description="The password, taken from the environment as `${NAME}`."
    )
    password_file: Annotated[ReadableFile | None, excludes("password")] = Field(
        default=None, description="The file that holds the password. It is read again when it changes."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.username is None and self.username_file is None:
            raise ValueError("has no user; add `username` or `username_file`")
        return self


TlsVersion = Literal["TLS12", "TLS13"]


class TlsConfig(Section):
    """How to trust the server, and how to prove who asks."""

    ca: Annotated[str | None, Field(description="The authorities to trust, as PEM text.")] = None
    ca_file: Annotated[ReadableFile | None, excludes("ca")] = Field(
        default=None, description="The file of the authorities to trust; without one, the system's."
    )
    cert: str | None = Field(default=None, description="The client's certificate, as PEM text.")
    cert_file: Annotated[ReadableFile | None, excludes("cert")] = Field(
        default=None, description="The file of the client's certificate."
    )
    key: Secret | None = Field(
        default=None, description="The client's key as PEM text, taken from the environment as `${NAME}`."
    )
    key_file: Annotated[ReadableFile | None, excludes("key")] = Field(
        default=None, description="The file of the client's key."
    )
    server_name: str | None = Field(
        default=None,
        description="The name that the server's certificate must bear, where it is not the host's.",
    )
    insecure_skip_verify: bool = Field(
        default=False,
        description="Trust any certificate. Anyone on the way can then read and change the page.",
    )
    min_version: TlsVersion = Field(default="TLS12", description="The oldest version to speak.")
    max_version: TlsVersion | None = Field(
        default=None, description="The newest version to speak; without one, the newest that both know."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        certificate = self.cert is not None or self.cert_file is not None
        if certificate != (self.key is not None or self.key_file is not None):
            missing, given = ("key_file", "certificate") if certificate else ("cert_file", "key")
            raise ValueError(f"has a {given} alone; add `{missing}`")
        if self.max_version is not None and self.max_version < self.min_version:
            raise ValueError("has a `max_version` below its `min_version`; swap them")
        return self


class HeaderValues(Section):
    """The values of one header; several are sent as one list, with commas between."""

    values: tuple[HeaderText, ...] = Field(default=(), description="Values that anyone may see.")
    secrets: tuple[Secret, ...] = Field(
        default=(), description="Values that are never shown, each taken from the environment as `${NAME}`."
    )
    files: tuple[ReadableFile, ...] = Field(
        default=(), description="Files that hold one value each. They are read again when they change."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not (self.values or self.secrets or self.files):
            raise ValueError("has no value; add `values`, `secrets` or `files`")
        return self


class HttpSettings(Section):
    """How to ask a server. ``HttpSettings()`` asks plainly."""

    authorization: Authorization | None = Field(default=None, description="The `Authorization` header.")
    basic_auth: Annotated[BasicAuth | None, excludes("authorization")] = Field(
        default=None, description="User and password, in the `Authorization` header."
    )
    tls_config: TlsConfig | None = Field(default=None, description="TLS, for https addresses.")
    http_headers: Mapping[HeaderName, HeaderValues] = Field(
        default_factory=dict, description="Headers to send besides, by name."
    )

    @property
    def http(self) -> HttpSettings:
        """The HTTP keys alone, of a section that has others too."""
        return HttpSettings.model_construct(
            **{name: getattr(self, name) for name in HttpSettings.model_fields}
        )

    def __hash__(self) -> int:
        """Hash the headers as pairs: a mapping has no hash of its own."""
        headers = frozenset(self.http_headers.items())
        return hash((self.authorization, self.basic_auth, self.tls_config, headers))
