"""What acceptance is held against: a figure that was once good, before something was changed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from exporter.config.http_settings import Section
from exporter.config.pay_settings import MOST_TOKENS
from exporter.config.values import Share


class ReferenceSettings(Section):
    """The acceptance rate to hold a server against, as it was before a change such as quantisation."""

    acceptance_ratio: Share = Field(
        description="The acceptance rate, accepted tokens over draft tokens, between 0 and 1."
    )
    tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = Field(
        default=None,
        description="The draft tokens at which it was measured. An engine that drafts another number is not "
        "held against it: the rate falls with that number by itself.",
    )

    def at(self, tokens: int) -> float | None:
        """Return the rate for an engine that drafts ``tokens`` at a time, 0 where that is unknown.

        None where it was measured at another number.
        """
        other = tokens and self.tokens and tokens != self.tokens
        return None if other else self.acceptance_ratio
