"""How several exporters share the targets."""

from __future__ import annotations

import re
import socket
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from spec_decode_exporter.config.errors import MistakesError
from spec_decode_exporter.config.http_settings import Section

_ORDINAL: Final = re.compile(r".*-([0-9]{1,6})")


def _index(value: object) -> object:
    """Put the ordinal of this replica in the place of ``auto``."""
    if value != "auto":
        return value
    host = socket.gethostname().partition(".")[0]
    found = _ORDINAL.fullmatch(host)
    if found is None:
        raise ValueError(
            f"is auto, but the host's name, {host}, does not end in `-` and a number as in a StatefulSet; "
            "set the number"
        )
    return int(found[1])


class ShardSettings(Section):
    """Which part of the targets is watched, where several exporters share them.

    All of them have the same configuration but for `index`. Each target has one owner, by the hash of its
    address: the one that `hashmod` of Prometheus gives for `__address__`.
    """

    count: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1, description="How many exporters share the targets."
    )
    index: Annotated[
        int,
        BeforeValidator(_index),
        Field(ge=0),
        WithJsonSchema({"type": ["integer", "string"], "title": "whole number or `auto`"}),
    ] = Field(
        default=0,
        description="Which of them this one is, from 0. `auto` is the number at the end of the host's name, "
        "as the pods of a StatefulSet have it.",
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if self.index >= self.count:
            message = f"must be less than `count`, {self.count}; the first is 0"
            raise MistakesError([(("index",), message)])
        return self
