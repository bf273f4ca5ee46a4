"""Requests: data of single requests that the exporter accepts, and limits of their labels."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field, PrivateAttr, model_validator

from spec_decode_exporter.config.types import MAX_SECRET_BYTES, NotEmpty, ReadableFile, Section, refuses
from spec_decode_exporter.core.files import read_bounded

MIN_SALT: Final = 16
"""Bytes of a salt: a shorter one could be guessed, and with it the users."""


def _order_problem(bounds: tuple[float, ...]) -> str | None:
    ascends = list(bounds) == sorted(set(bounds))
    return None if ascends else "do not ascend; write each bound once, the lowest first"


PromptBound = Annotated[int, Field(ge=1, le=10_000_000)]
Bound = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


# fmt: off
class RequestUsers(Section):
    """Users, identified by a hash. Without this section no data of users is kept."""

    salt_file: ReadableFile = Field(description="A file with the key of the hash, read at the start and at a reload. Keep it secret: it allows testing names.")
    max: Annotated[int, Field(ge=1, le=200)] = Field(default=10, description="Maximum number of users with their own series; the others are `other`.")

    _key: bytes = PrivateAttr(default=b"")

    @property
    def key(self) -> bytes:
        """The salt at the time when the configuration was read."""
        return self._key

    @model_validator(mode="after")
    def _salted(self) -> Self:
        try:
            self._key = read_bounded(self.salt_file, MAX_SECRET_BYTES).strip()
        except OSError as error:
            raise ValueError(f"has a `salt_file` that cannot be read: {error.strerror}") from None
        if len(self._key) < MIN_SALT:
            raise ValueError(f"has a salt of less than {MIN_SALT} bytes; `openssl rand -hex 32` writes one")
        return self


class RequestSettings(Section):
    """Requests that are sent to `/api/v1/requests`; see [requests.md](../guide/requests.md)."""

    ingest: bool = Field(default=False, description="Accept requests. Any client that can open the exporter's pages can then send them.")
    temperatures: Annotated[tuple[Bound, ...], NotEmpty, refuses(_order_problem)] = Field(default=(0.0, 0.3, 0.7, 1.0), max_length=12, description="Upper bounds of the temperature buckets, the values of the label `temperature`.")
    prompt_tokens: Annotated[tuple[PromptBound, ...], NotEmpty, refuses(_order_problem)] = Field(default=(1_000, 4_000, 16_000, 64_000), max_length=12, description="Upper bounds of the buckets of prompt lengths, in tokens, the values of the label `prompt_tokens`. Each bucket of a model has up to 8 series, 11 in the profile `full`.")
    models: Annotated[int, Field(ge=1, le=200)] = Field(default=20, description="Maximum number of models with their own series; the others are `other`.")
    types: Annotated[int, Field(ge=1, le=200)] = Field(default=10, description="Maximum number of request types with their own series; the others are `other`.")
    groups: Annotated[int, Field(ge=1, le=2_000)] = Field(default=60, description="Maximum number of combinations of model, type and temperature. Each has up to 37 series, 74 in the profile `full`; the others are `other` of their model.")
    keep: Annotated[int, Field(ge=100, le=1_000_000)] = Field(default=20_000, description="Maximum number of requests in the windows, at most 700 bytes each; with more, a window covers the newest ones.")
    rate: Annotated[int, Field(ge=1, le=100_000)] = Field(default=2_000, description="Maximum number of accepted requests per second; more are counted and dropped.")
    users: RequestUsers | None = Field(default=None, description="Identification of users; without it no data of users is kept.")
# fmt: on
