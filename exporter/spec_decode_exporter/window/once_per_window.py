"""Formulas of a window that are computed once, however many figures need them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar, cast

from spec_decode_exporter.window.ledger import Window

Result = TypeVar("Result")


def once_per_window(formula: Callable[[Window], Result]) -> Callable[[Window], Result]:
    """Return a formula that keeps its result with the window, until the window forgets it.

    The formula may depend on the window's length only by whether the window is partial: see
    ``Window.of_length``.
    """

    @wraps(formula)
    def computed(window: Window) -> Result:
        results = window.results
        if formula not in results:
            results[formula] = formula(window)
        return cast("Result", results[formula])

    return computed
