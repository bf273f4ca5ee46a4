"""Words of verdicts, states and actions: page, filter, headline, reports and dashboards read this table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.verdict import Action, State, Verdict

Standing = Verdict | State  # verdict, or the state of an engine that does not draft


class Word(NamedTuple):
    """How a value is written."""

    label: str
    """A word or two: a chip, a cell, a value of the filter."""
    tone: str
    """``good``, ``bad``, ``unsure``, ``waiting`` or ``off``."""
    title: str = ""
    """A few words, which begin a sentence."""
    meaning: str = ""
    """One sentence, or more."""


_BASIS: Final = "and the lower bound of the speed-up, which allows for an uncertain cost, is above 1."

# fmt: off
VERDICTS: Final[Mapping[Verdict, Word]] = {
    Verdict.OPTIMAL: Word("Optimal", "good", "Speculation pays very well", f"Speculation pays: the best guess is 2 or more, {_BASIS}"),
    Verdict.HEALTHY: Word("Healthy", "good", "Speculation pays", f"Speculation pays: the best guess is 1.3 to 2, {_BASIS}"),
    Verdict.MARGINAL: Word("Marginal", "good", "Speculation pays a little", f"Speculation pays a little: the best guess is below 1.3, {_BASIS}"),
    Verdict.POOR: Word("Poor", "unsure", "Speculation brings no worthwhile gain", "The best guess is below 1.1, but it is not certain that decoding is slower."),
    Verdict.HARMFUL: Word("Harmful", "bad", "Speculation makes decoding slower", "Decoding is slower than without speculation, at every possible cost of drafting."),
    Verdict.UNCLEAR: Word("Unclear", "unsure", "Unclear whether speculation pays", "Whether it pays depends on a cost of drafting that is not known well enough."),
    Verdict.INSUFFICIENT: Word("Too early", "waiting", "Too early to say", "Too few drafts, or too uneven ones, for a verdict."),
}
STATES: Final[Mapping[State, Word]] = {
    State.ACTIVE: Word("Active", "good", "Drafting", "It drafts, or will as soon as it finds something to propose."),
    State.IDLE: Word("Idle", "waiting", "Waiting for requests", "Nothing is running, so nothing is drafted."),
    State.STALLED: Word("Stalled", "bad", "Drafting stalled", "It drafted before, and does not now though it should."),
    State.DISABLED: Word("Off", "off", "No speculation here", "The engine does not speculate."),
    State.UNKNOWN: Word("Not known yet", "waiting", "First seconds", "Not known yet: it needs a second poll and, behind vLLM's Rust front end, requests."),
    State.UNREACHABLE: Word("Unreachable", "bad", "Unreachable", "The engine was absent for too long: its state is unknown."),
}
ACTIONS: Final[Mapping[Action, Word]] = {
    Action.KEEP: Word("Keep", "good"),
    Action.INCREASE: Word("Draft more", "unsure"),
    Action.DECREASE: Word("Draft fewer", "unsure"),
    Action.DISABLE: Word("Switch off", "bad"),
    Action.LIMIT_BATCH: Word("Limit the batch", "bad"),
    Action.SWITCH_METHOD: Word("Switch method", "bad"),
    Action.MEASURE_COST: Word("Measure the cost", "unsure"),
    Action.COLLECT: Word("Wait for data", "waiting"),
}
# fmt: on
WORDS: Final[Mapping[Standing, Word]] = dict([*VERDICTS.items(), *STATES.items()])
"""Words of what an engine counts as."""
LIKELY: Final[Mapping[bool, str]] = {True: "Speculation probably pays", False: "Speculation may pay or not"}
"""What is likely of an unclear verdict. Too few published measurements test "probably does not"."""
