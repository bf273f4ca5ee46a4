"""Values of a window's figures, each computed once for all readers of a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from spec_decode_exporter.config.units import format_duration
from spec_decode_exporter.figures.decode_work import DraftCost
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.figure import ListFigure, ScalarFigure, WindowBounds
from spec_decode_exporter.figures.poll_spread import Spread, spread
from spec_decode_exporter.figures.table import scalar
from spec_decode_exporter.window.ledger import Window


class WindowFigures:
    """The figures of one window at one cost, computed when a reader first asks."""

    __slots__ = ("_bounds", "_cost", "_lists", "_numbers", "_spread", "window")

    def __init__(
        self, window: Window, cost: DraftCost | None = None, bounds: WindowBounds | None = None
    ) -> None:
        """Take a window, with its cost and its bounds if they are known."""
        self.window = window
        self._cost = cost
        self._bounds = bounds
        self._numbers: dict[str, float | None] = {}
        self._lists: dict[str, tuple[float | None, ...]] = {}
        self._spread: tuple[Spread | None] | None = None

    @property
    def label(self) -> str:
        """The value of the ``window`` label."""
        return window_label(self.window)

    def number(self, figure: ScalarFigure) -> float | None:
        """Return the value of a figure; None if it is unknown."""
        if figure.key not in self._numbers:
            self._numbers[figure.key] = figure.formula(self.window, self._cost)
        return self._numbers[figure.key]

    def numbers(self, figure: ListFigure) -> Sequence[float | None]:
        """Return the values of a figure of positions or lengths."""
        if figure.key not in self._lists:
            self._lists[figure.key] = tuple(figure.formula(self.window))
        return self._lists[figure.key]

    def bounds(self, figure: ScalarFigure) -> Estimate | None:
        """Return the bounds of a figure; None if it has none, or too few requests pass the window."""
        return None if self._bounds is None or figure.bounds is None else figure.bounds(self._bounds)

    def value(self, key: str) -> float | None:
        """Return the value of a figure of one number by its key."""
        return self.number(scalar(key))

    def estimate(self, key: str) -> Estimate | None:
        """Return the bounds of a figure of one number by its key."""
        return self.bounds(scalar(key))

    def spread(self) -> Spread | None:
        """Return the spread of the acceptance rate over the window's polls."""
        if self._spread is None:
            self._spread = (spread(self.window),)
        return self._spread[0]


def window_label(window: Window) -> str:
    """Return the value of the ``window`` label."""
    return _written(window.length)


# Every series of every page has one of a few lengths: writing them again took a quarter of a page's time.
_written = lru_cache(maxsize=64)(format_duration)
