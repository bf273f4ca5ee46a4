"""How a check tells of several mistakes at once, each at its own key."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class MistakesError(ValueError):
    """Mistakes found by one check, as pairs of a path below the checked value and what is wrong there."""

    def __init__(self, mistakes: Sequence[tuple[tuple[str | int, ...], str]]) -> None:
        super().__init__("; ".join(message for _, message in mistakes))
        self.mistakes = tuple(mistakes)
