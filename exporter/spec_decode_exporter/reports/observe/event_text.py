"""Sentences about events; docs/reference/log.md describes the events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from spec_decode_exporter.monitor.event_log import Plain
from spec_decode_exporter.reports.parts import Note, Tone
from spec_decode_exporter.views.fleet_view import EventView

Fields = Mapping[str, Plain | tuple[Plain, ...]]

QUIET: Final = frozenset(
    {"engine_found", "filtered_page_not_used", "verdict_changed", "recommendation_changed"}
)
"""Events of every observation, and events about another window: not shown."""

_STATES: Final[Mapping[str, str]] = {
    "active": "it drafts",
    "idle": "nothing runs",
    "stalled": "it no longer drafts",
    "disabled": "it does not speculate",
    "unknown": "its state is not known yet",
    "unreachable": "it is unreachable",
}
_CAUSES: Final[Mapping[str, str]] = {
    "answers": "its responses are slow",
    "processing": "this program needs long to process its page",
}


def event_note(event: EventView) -> Note:
    """Return an event as a note: time, sentence, and engine or target."""
    sentence = SENTENCES.get(event.type)
    text = sentence(event.fields) if sentence else event.type
    engine = event.engine and f"engine {event.engine}"
    subject = " ".join(filter(None, [event.target, event.model_name, engine]))
    return Note(
        f"{text} ({subject})",
        f"{datetime.fromtimestamp(event.time, UTC):%H:%M:%S}",
        Tone.BAD if event.bad else Tone.NEUTRAL,
        untrusted=True,
    )


def _reset(fields: Fields) -> str:
    why = "the server restarted" if fields["cause"] == "restart" else "they decreased for an unknown reason"
    return f"The server's counters were reset: {why}."


def _state(fields: Fields) -> str:
    now, before = (str(fields[name]) for name in ("state", "before"))
    return f"Now {_STATES.get(now, now)}; just before: {_STATES.get(before, before)}."


def _drop(fields: Fields) -> str:
    return (
        f"Acceptance is lower than usual, by a {fields['kind']} drop: {fields['acceptance_length']} tokens a "
        f"draft instead of {fields['baseline_acceptance_length']}."
    )


SENTENCES: Final[Mapping[str, Callable[[Fields], str]]] = {
    "engine_reset": _reset,
    "acceptance_dropped": _drop,
    "acceptance_recovered": lambda fields: f"The {fields['kind']} drop of acceptance is over.",
    "acceptance_baseline_reset": lambda _: "Acceptance stayed low: its baseline was reset.",
    "drafting_dropped": lambda fields: (
        f"Fewer steps have a draft than usual: {fields['tokens_per_step']} tokens a step instead of "
        f"{fields['baseline_tokens_per_step']}."
    ),
    "drafting_recovered": lambda _: "As many steps have a draft as usual again.",
    "drafting_baseline_reset": lambda _: "Few steps have a draft still: the baseline was reset.",
    "configured_tokens_changed": lambda fields: (
        f"{fields['configured_tokens']} tokens are drafted at a time, not {fields['before']} as before: the "
        "window was reset."
    ),
    "state_changed": _state,
    "drafting_stalled": lambda _: "It no longer drafts, though it decodes.",
    "drafting_no_longer_stalled": lambda _: "It drafts again, or has nothing to do.",
    "check_broken": lambda fields: (
        f"Its counters contradict each other ({fields['check']}): do not trust the figures."
    ),
    "check_holds_again": lambda fields: f"Its counters agree with each other again ({fields['check']}).",
    "analysis_failed": lambda fields: (
        f"Internal error of this program in the {fields['part']}: {fields['error']}."
    ),
    "analysis_works_again": lambda fields: f"What failed in this program works again: {fields['part']}.",
    "engines_evicted": lambda _: "It keeps renaming its engines: the oldest were evicted.",
    "engines_not_monitored": lambda fields: (
        f"{fields['engines']} of its engines are not watched: the limit is {fields['kept']}."
    ),
    "server_details_not_used": lambda fields: f"Not used from {fields['source']}: {fields['reason']}.",
    "target_polled_less_often": lambda fields: (
        f"It is polled every {fields['interval']} s: {_CAUSES.get(str(fields['cause']), fields['cause'])}."
    ),
    "baseline_read": lambda fields: f"Its baseline is from {fields['source']}: {fields['period']}.",
    "baseline_not_read": lambda fields: f"No baseline from {fields['source']}: {fields['reason']}.",
    "events_omitted": lambda fields: f"Events such as {fields['example']} are left out: there are too many.",
    "target_failing": lambda fields: f"Its polls fail: {fields['error']}.",
    "target_recovered": lambda fields: f"It answers again, after {fields['failed_polls']} failed polls.",
    "no_engine_on_page": lambda _: "Its page was read and shows no engine.",
    "poll_crashed": lambda _: "Internal error of this program: its page could not be read.",
}
"""Sentence of each event about an engine or a target that is not in ``QUIET``."""
