"""Sharding: several exporters share the targets."""

from __future__ import annotations

import re
import socket
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from spec_decode_exporter.config.errors import ProblemsError
from spec_decode_exporter.config.http_settings import Section

_ORDINAL: Final = re.compile(r".*-([0-9]{1,6})")


def _index(value: object) -> object:
    """Replace ``auto`` by the ordinal of this replica."""
    if value != "auto":
        return value
    host = socket.gethostname().partition(".")[0]
    match = _ORDINAL.fullmatch(host)
    if match is None:
        raise ValueError(
            f"is auto, but the host name {host} does not end in `-` and a number as in a StatefulSet; "
            "set the number"
        )
    return int(match[1])


class ShardSettings(Section):
    """The part of the targets of this exporter, if several exporters share them.

    All exporters have the same configuration except for `index`. The hash of a target's address selects its
    exporter, as `hashmod` of Prometheus does for `__address__`.
    """

    count: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1, description="The number of exporters that share the targets."
    )
    index: Annotated[
        int,
        BeforeValidator(_index),
        Field(ge=0),
        WithJsonSchema({"type": ["integer", "string"], "title": "whole number or `auto`"}),
    ] = Field(
        default=0,
        description="The index of this exporter, from 0. `auto` is the number at the end of the host name, "
        "as "
        "in the pods of a StatefulSet.",
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if self.index >= self.count:
            message = f"must be less than `count`, {self.count}; the first is 0"
            raise ProblemsError([(("index",), message)])
        return self
