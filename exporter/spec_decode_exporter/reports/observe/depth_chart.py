"""Chart of the expected speed-up by number of draft tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spec_decode_exporter.analysis.verdict import Action
from spec_decode_exporter.core import number_formats as numbers
from spec_decode_exporter.reports.parts import Bar, Chart, Note, Part
from spec_decode_exporter.views.engine_view import DepthView, EngineView
from spec_decode_exporter.views.window_view import WindowView

GIVE_COST: Final = (
    "Give what it costs, and the concurrent requests of the measurement: --cost.draft-cost-ratio 0.05 "
    "--cost.running-requests 8."
)


def depths(engine: EngineView, window: WindowView) -> Iterator[Part]:
    """Yield the chart, and the assumption behind it."""
    if engine.depths:
        shown = _no_speculation(engine), *engine.depths
        largest = max(depth.speedup_ratio for depth in shown)
        bars = (_depth(depth, engine, largest) for depth in shown)
        yield Chart("draft tokens", ("speed-up", "change"), tuple(bars))
        yield Note("An estimate: acceptance at another number of draft tokens differs somewhat.")
        yield from _differs(engine, window)
    elif window.counts.drafts and engine.cost is None:
        yield Note(f"The cost of a draft token is unknown, so no gain can be estimated. {GIVE_COST}")


def _differs(engine: EngineView, window: WindowView) -> Iterator[Note]:
    """Yield the reason if the chart's present speed-up differs visibly from the measured one."""
    present, speedup = _present(engine), window.estimated_speedup_ratio.value
    if present is not None and numbers.plain(present) != numbers.plain(speedup):
        yield Note(
            f"{numbers.plain(present)} uses the positions and the steps with a draft, and "
            f"{numbers.plain(speedup)} all tokens and steps."
        )


def _present(engine: EngineView) -> float | None:
    """Return the expected speed-up of the configured number of draft tokens."""
    return next((each.speedup_ratio for each in engine.depths if _is_present(each, engine)), None)


def _no_speculation(engine: EngineView) -> DepthView:
    return DepthView(
        tokens=0,
        speedup_ratio=1.0,
        extrapolated=False,
        recommended=engine.recommended_tokens == 0,
        position_marginal_benefit_ratio=None,
    )


def _depth(depth: DepthView, engine: EngineView, largest: float) -> Bar:
    present = _present(engine)
    is_present, keep = _is_present(depth, engine), engine.recommendation is Action.KEEP
    change = "" if is_present or present is None else numbers.change(depth.speedup_ratio / present)
    remarks = {
        "no speculation": not depth.tokens,
        "now": is_present,
        "recommended": depth.recommended and not keep,
        "nearly as fast": depth.recommended and keep and not is_present,
        "extrapolated": depth.extrapolated,
    }
    return Bar(
        str(depth.tokens),
        depth.speedup_ratio / largest,
        (numbers.plain(depth.speedup_ratio), change),
        ", ".join(remark for remark, holds in remarks.items() if holds),
        marked=is_present if keep else depth.recommended,
        guessed=depth.extrapolated,
    )


def _is_present(depth: DepthView, engine: EngineView) -> bool:
    return depth.tokens == engine.configured_tokens
