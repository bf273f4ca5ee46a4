"""Documents of the JSON: ONE set for the API, the page, the commands and Python.

Names and units are those of the metrics without ``spec_decode_``: shares are between 0 and 1, times in
seconds, moments in Unix time. A number without a value is null, never 0. Documents are frozen and reject
unknown fields. docs/reference/api.md lists the stable fields.

A domain record whose names are those of the JSON is its own document. Else a row of a document reads a field
from an attribute of its record (``at``), or computes it when it is first read (``fact``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import inf
from typing import Annotated, Any, Self, TypeVar

from pydantic import AliasChoices, AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, computed_field

from spec_decode_exporter.figures.estimate import Estimate

T = TypeVar("T")
Unlimited = Annotated[float | None, BeforeValidator(lambda end: None if end == inf else end)]
"""A bound that is null if there is none: JSON has no infinity."""


class View(BaseModel):
    """Base of all documents: frozen, without unknown fields."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        from_attributes=True,
        validate_by_name=True,
        validate_by_alias=True,
        json_schema_serialization_defaults_required=True,
        use_attribute_docstrings=True,  # those of domain records
        defer_build=True,  # until the first document: an exporter that is only scraped needs none
    )

    @classmethod
    def of(cls, record: object, **fields: object) -> Self:
        """Return the document of a record, with the ``fields`` that the record lacks."""
        return cls.model_validate(_Extended(record, fields))

    def read_all(self) -> Self:
        """Read every fact, those of nested documents too; an error keeps its traceback, unlike in JSON."""
        self.model_dump()
        return self


class _Extended:
    """A record with further attributes."""

    def __init__(self, record: object, more: dict[str, object]) -> None:
        self._record, self._more = record, more

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  any attribute
        return self._more[name] if name in self._more else getattr(self._record, name)


def at(description: str, *paths: str, **more: Any) -> Any:  # noqa: ANN401  a field of any type
    """Return a field that is read from the first of some attributes of its record, such as ``guess.token``.

    Without any it is the attribute of the field's name.
    """
    alias = AliasChoices(*(AliasPath(*path.split(".")) for path in paths)) if paths else None
    return Field(validation_alias=alias, description=description, **more)


def fact(description: str, type_: Any, read: Callable[[Any], T]) -> cached_property[T]:  # noqa: ANN401  a type
    """Return a field that ``read`` computes of its document, once; ``type_`` is its type in the schema."""
    return computed_field(return_type=type_, description=description)(cached_property(read))


def computed(compute: Callable[[Any], T]) -> cached_property[T]:
    """Make a method with a docstring such a field; it is computed once."""
    return computed_field(cached_property(compute))


class Estimated(View):
    """A value with its 95 % bounds."""

    value: float | None = at("Null if the window has no counts to compute it from.")
    lower: float | None = at("Null if too few requests pass through the window for bounds.")
    upper: float | None = at("Null exactly if `lower` is null.")


def estimated(value: float | None, bounds: Estimate | None) -> Estimated:
    """Return a value with its bounds; None: they are unknown."""
    lower, upper = (None, None) if bounds is None else (bounds.lower, bounds.upper)
    return Estimated(value=value, lower=lower, upper=upper)
