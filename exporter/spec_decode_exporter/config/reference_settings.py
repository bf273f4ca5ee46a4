"""Reference of acceptance: a rate measured before a change, with which servers are compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import Field, PrivateAttr, ValidationInfo, model_validator

from spec_decode_exporter.config.batch_schedule import MAX_DRAFT_TOKENS
from spec_decode_exporter.config.cost_settings import ModelText
from spec_decode_exporter.config.errors import ProblemsError
from spec_decode_exporter.config.http_settings import Section
from spec_decode_exporter.config.values import LocatedFile, ReadRates, Share, context_of


class ReferenceSettings(Section):
    """The acceptance rate that a server is compared with, measured before a change such as quantisation.

    Set either `acceptance_ratio` or `file`, which `observe --save` writes.
    """

    acceptance_ratio: Share | None = Field(
        default=None, description="The acceptance rate, accepted tokens over draft tokens, between 0 and 1."
    )
    tokens: Annotated[int, Field(ge=1, le=MAX_DRAFT_TOKENS)] | None = Field(
        default=None,
        description="The number of draft tokens at which `acceptance_ratio` was measured. An engine that "
        "drafts another number is not compared, because the rate falls with that number.",
    )
    file: LocatedFile | None = Field(
        default=None,
        description="A file that `observe --save` wrote. It is read together with the configuration.",
    )
    model_name: ModelText | None = Field(
        default=None, description="The model of the file; required if the file holds more than one."
    )
    _rates: dict[int | None, float] = PrivateAttr(default_factory=dict)
    """The acceptance rate by draft tokens; None is any number."""

    def at(self, tokens: int) -> float | None:
        """Return the rate for an engine that drafts ``tokens`` tokens, 0 if that number is unknown.

        Return None if the rate was measured at another number, or at several and ``tokens`` is 0.
        """
        if tokens and None not in self._rates:
            return self._rates.get(tokens)
        return next(iter(self._rates.values())) if len(self._rates) == 1 else None

    @model_validator(mode="after")
    def _in_one_way(self, info: ValidationInfo) -> Self:
        mistakes = list(self._mistakes())
        if mistakes:
            raise ProblemsError(mistakes)
        context = context_of(info)
        if self.acceptance_ratio is not None:
            self._rates = {self.tokens: self.acceptance_ratio}
        elif context is not None and context.read_rates is not None:
            self._rates = self._from_file(context.read_rates)
        return self

    def _from_file(self, read_rates: ReadRates) -> dict[int | None, float]:
        if self.file is None:
            return {}
        try:
            return read_rates(self.file, self.model_name)
        except ValueError as error:
            raise ProblemsError([(("file",), str(error))]) from None

    def _mistakes(self) -> Iterator[tuple[tuple[str, ...], str]]:
        if self.acceptance_ratio is None and self.file is None:
            yield (), "has no rate; add `acceptance_ratio`, or the `file` that `observe --save` wrote"
        if self.acceptance_ratio is not None and self.file is not None:
            yield ("file",), "cannot be set beside `acceptance_ratio`; remove one of the two"
        if self.tokens is not None and self.file is not None:
            yield ("tokens",), "cannot be set beside `file`, which holds it; remove it"
        if self.model_name is not None and self.file is None:
            yield ("model_name",), "selects a model of a `file`, but no `file` is set; remove it"
