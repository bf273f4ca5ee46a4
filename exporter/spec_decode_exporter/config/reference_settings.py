"""What acceptance is held against: a figure that was once good, before something was changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, PrivateAttr, model_validator

from spec_decode_exporter.config.cost_settings import MOST_TOKENS, ModelText
from spec_decode_exporter.config.http_settings import Section
from spec_decode_exporter.config.mistakes import MistakesError
from spec_decode_exporter.config.values import LocatedFile, Share

if TYPE_CHECKING:
    from spec_decode_exporter.reports.reference.reference_document import MeasuredModel


class ReferenceSettings(Section):
    """The acceptance rate to hold a server against, as it was before a change such as quantisation.

    It is said by `acceptance_ratio`, or by the `file` that `reference save` wrote.
    """

    acceptance_ratio: Share | None = Field(
        default=None, description="The acceptance rate, accepted tokens over draft tokens, between 0 and 1."
    )
    tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = Field(
        default=None,
        description="The draft tokens at which it was measured; a file says that itself. An engine that "
        "drafts another number is not held against it: the rate falls with that number by itself.",
    )
    file: LocatedFile | None = Field(
        default=None,
        description="A file that `spec-decode-exporter reference save` wrote. It is read when the "
        "configuration is.",
    )
    model_name: ModelText | None = Field(
        default=None, description="Which model of the file; needed where it holds more than one."
    )
    _rates: dict[int | None, float] = PrivateAttr(default_factory=dict)
    """The acceptance rate by draft tokens; None is any number."""

    def at(self, tokens: int) -> float | None:
        """Return the rate for an engine that drafts ``tokens`` at a time, 0 where that is unknown.

        None where it was measured at another number, or at several and nobody knows which one is meant.
        """
        if tokens and None not in self._rates:
            return self._rates.get(tokens)
        return next(iter(self._rates.values())) if len(self._rates) == 1 else None

    @model_validator(mode="after")
    def _in_one_way(self) -> Self:
        mistakes = list(self._mistakes())
        if mistakes:
            raise MistakesError(mistakes)
        if self.acceptance_ratio is not None:
            self._rates = {self.tokens: self.acceptance_ratio}
        else:
            self._rates = dict(self._read())
        return self

    def _mistakes(self) -> Iterator[tuple[tuple[str, ...], str]]:
        if self.acceptance_ratio is None and self.file is None:
            yield (), "says no rate; add `acceptance_ratio`, or the `file` that `reference save` wrote"
        if self.acceptance_ratio is not None and self.file is not None:
            yield ("file",), "cannot stand beside `acceptance_ratio`; remove one of the two"
        if self.tokens is not None and self.file is not None:
            yield ("tokens",), "cannot stand beside `file`, which says it itself; remove it"
        if self.model_name is not None and self.file is None:
            yield ("model_name",), "says which model of a `file`, and there is none; remove it"

    def _read(self) -> Iterator[tuple[int, float]]:
        """Yield draft tokens and acceptance rate of the model in the file."""
        for model in self._models():
            if model.acceptance_ratio is not None:
                yield model.measurement.tokens, model.acceptance_ratio

    def _models(self) -> list[MeasuredModel]:
        # Imported where it is used: most exporters are told a rate, or none.
        from spec_decode_exporter.reports.reference.reference_file import ReferenceFileError, read

        if self.file is None:
            return []
        try:
            found = [model for model in read(self.file).models if model.acceptance_ratio is not None]
        except ReferenceFileError as error:
            raise MistakesError([(("file",), f"cannot be used: {error}")]) from None
        names = ", ".join(sorted({model.model_name for model in found}))
        chosen = [model for model in found if self.model_name in (None, model.model_name)]
        if not chosen:
            problem = (
                f"holds no acceptance of {self.model_name}" if self.model_name else "holds no acceptance"
            )
            raise MistakesError([(("file",), problem + (f"; there is {names}" if names else ""))])
        if len({model.model_name for model in chosen}) > 1:
            raise MistakesError(
                [(("file",), f"holds several models; say by `model_name` which one: {names}")]
            )
        return chosen
