"""Requests: what the exporter takes of single requests, and how many kinds of them it tells apart."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from spec_decode_exporter.config.http_settings import Section
from spec_decode_exporter.config.values import LARGEST_SECRET, NotEmpty, ReadableFile, Secret, excludes
from spec_decode_exporter.core.bounded_file import read_bounded

LEAST_SALT: Final = 16
"""Bytes of a salt: a shorter one could be found by trying, and with it the users."""


def _ascending(bounds: tuple[float, ...]) -> tuple[float, ...]:
    if list(bounds) != sorted(set(bounds)):
        raise ValueError("do not ascend; write each bound once, the lowest first")
    return bounds


Bound = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


class RequestUsers(Section):
    """Users, told apart by a hash: without this section nothing of a user is kept."""

    salt: Secret | None = Field(
        default=None,
        description="What the hash is keyed with, taken from the environment as `${NAME}`. Whoever has it "
        "can find out by trying whether a hash is a certain user's.",
    )
    salt_file: Annotated[ReadableFile | None, excludes("salt")] = Field(
        default=None, description="The file that holds it. It is read at the start and at a reload."
    )
    most: Annotated[int, Field(ge=1, le=200)] = Field(
        default=10, description="The most users told apart, by requests; the others are `other`."
    )

    _key: bytes = PrivateAttr(default=b"")

    @property
    def key(self) -> bytes:
        """The salt, as it was when the configuration was read."""
        return self._key

    @model_validator(mode="after")
    def _salted(self) -> Self:
        if self.salt is None and self.salt_file is None:
            raise ValueError("has no salt; add `salt_file`")
        self._key = self._read_key()
        if len(self._key) < LEAST_SALT:
            raise ValueError(f"has a salt of less than {LEAST_SALT} bytes; `openssl rand -hex 32` writes one")
        return self

    def _read_key(self) -> bytes:
        if self.salt_file is None:
            return self.salt.get_secret_value().encode() if self.salt else b""
        try:
            return read_bounded(self.salt_file, LARGEST_SECRET).strip()
        except OSError as error:
            raise ValueError(f"has a `salt_file` that cannot be read: {error.strerror}") from None


class RequestSettings(Section):
    """Requests that are sent to `/api/v1/requests`; see [requests.md](requests.md)."""

    ingest: bool = Field(
        default=False,
        description="Whether requests are taken. Whoever may open the exporter's pages may then send them.",
    )
    temperatures: Annotated[tuple[Bound, ...], NotEmpty, AfterValidator(_ascending)] = Field(
        default=(0.0, 0.3, 0.7, 1.0),
        description="Upper bounds of the temperature buckets. Each is told apart in the label `temperature`.",
        max_length=12,
    )
    models: Annotated[int, Field(ge=1, le=200)] = Field(
        default=20, description="The most models told apart, by requests; the others are `other`."
    )
    types: Annotated[int, Field(ge=1, le=200)] = Field(
        default=10, description="The most request types told apart, by requests; the others are `other`."
    )
    groups: Annotated[int, Field(ge=1, le=2_000)] = Field(
        default=60,
        description="The most combinations of model, type and temperature told apart, by requests. Each is "
        "about 75 series; the others are counted under the type and temperature `other` of their model.",
    )
    keep: Annotated[int, Field(ge=100, le=1_000_000)] = Field(
        default=20_000,
        description="The most requests kept for the windows, of 200 bytes or so each; the oldest go first.",
    )
    rate: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=2_000, description="The most requests taken a second; those above it are counted and let go."
    )
    users: RequestUsers | None = Field(
        default=None, description="How users are told apart, if at all; without it nothing of them is kept."
    )
