"""Summary of the fleet: one sentence, and the number of engines by verdict or state."""

from __future__ import annotations

from collections import Counter
from typing import Final

from spec_decode_exporter.analysis.verdict import NOT_PAYING, PAYING, State, Verdict
from spec_decode_exporter.core.number_formats import plural
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.web.page.markup import Markup, tag
from spec_decode_exporter.web.page.page_query import PageQuery
from spec_decode_exporter.web.page.words import VERDICTS, state_word, verdict_sign

Standing = Verdict | State
"""Verdict, or the state of an engine that does not draft."""

_ALL: Final[tuple[Standing, ...]] = (*Verdict, *State)
_ALARMING: Final = (Verdict.HARMFUL, State.STALLED, State.UNREACHABLE)
_TOO_EARLY: Final = "Too early to say whether speculation pays."
_UNCLEAR: Final = "Whether speculation pays depends on its cost, which is not known well enough."


def standing(view: EngineView) -> Standing:
    """Return the verdict or the state that an engine counts as."""
    drafts = view.state is State.ACTIVE or view.verdict is not Verdict.INSUFFICIENT
    return view.verdict if drafts else view.state


def is_alarming(view: EngineView) -> bool:
    """Return whether an engine needs attention: it comes first."""
    return any(view.drops.dropped.values()) or standing(view) in _ALARMING


def headline(standings: Counter[Standing], dropped: int) -> str:
    """Summarize the fleet; ``dropped`` engines have a present drop of acceptance or drafting."""
    if not dropped:
        return sentence(standings)
    where = "" if standings.total() == 1 else f" on {plural(dropped, 'engine')}"
    return f"Acceptance has dropped{where}. {sentence(standings)}"


def sentence(standings: Counter[Standing]) -> str:
    """Summarize the engines that draft in one sentence."""
    pays = sum(standings[each] for each in PAYING)
    does_not = sum(standings[each] for each in NOT_PAYING)
    unclear = standings[Verdict.UNCLEAR]
    drafting = pays + does_not + unclear + standings[Verdict.INSUFFICIENT]
    if not standings:
        return "No engine was seen yet."
    if not drafting:
        return "No engine drafts anything now."
    if not pays + does_not:
        return _UNCLEAR if unclear else _TOO_EARLY
    if unclear > pays + does_not:
        return _mostly_unclear(pays, does_not, unclear, drafting)
    if drafting == 1:
        return "Speculation pays." if pays else "Speculation hardly pays, if at all."
    where = f"all {pays} engines" if pays == drafting else f"{pays} of the {drafting} engines"
    return f"Speculation pays on {where} that draft{_rest(does_not, standings)}."


def _mostly_unclear(pays: int, does_not: int, unclear: int, drafting: int) -> str:
    """Summarize engines of which fewer than half have a cost that is known well enough."""
    known = [f"it pays on {pays}"] if pays else []
    known += (
        [f"hardly or not at all on {does_not}" if pays else f"it hardly pays on {does_not}"]
        if does_not
        else []
    )
    where = f"{unclear} of the {drafting} engines that draft"
    return f"Whether speculation pays depends on an unknown cost on {where}; {', '.join(known)}."


def _rest(does_not: int, standings: Counter[Standing]) -> str:
    unclear, unsure = standings[Verdict.UNCLEAR], standings[Verdict.INSUFFICIENT]
    parts = [f"hardly or not at all on {does_not}"] if does_not else []
    parts += [f"depending on an unknown cost on {unclear}"] if unclear else []
    parts += [f"too early to say on {unsure}"] if unsure else []
    return f"; {', '.join(parts)}" if parts else ""


def chips(standings: Counter[Standing], query: PageQuery) -> Markup:
    """Return a filter link for each verdict and state; an active filter's link removes it."""
    known = (each for each in _ALL if standings[each])
    return tag("ul", *(_chip(each, standings[each], query) for each in known), class_="chips")


def _chip(shown: Standing, count: int, query: PageQuery) -> Markup:
    wanted = f"verdict={shown} state=active" if shown is Verdict.INSUFFICIENT else _filter(shown)
    is_chosen = query.text == wanted
    link = tag(
        "a",
        *_sign(shown),
        " ",
        tag("b", str(count)),
        href=query.filtered("" if is_chosen else wanted).href,
        class_="chip",
        aria_current="true" if is_chosen else None,
    )
    return tag("li", link, data_key=str(shown))


def _filter(shown: Standing) -> str:
    return f"{'verdict' if isinstance(shown, Verdict) else 'state'}={shown}"


def _sign(shown: Standing) -> tuple[Markup, ...]:
    if isinstance(shown, State):
        return (state_word(shown),)
    return verdict_sign(shown), tag("span", VERDICTS[shown].text)
