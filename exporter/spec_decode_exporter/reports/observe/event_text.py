"""What happened, in sentences; docs/log.md says what each event means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from spec_decode_exporter.monitor.event_log import Plain
from spec_decode_exporter.reports.parts import Note, Tone
from spec_decode_exporter.views.models import EventView

Fields = Mapping[str, Plain | tuple[Plain, ...]]

QUIET: Final = frozenset(
    {"engine_found", "filtered_page_not_used", "verdict_changed", "recommendation_changed"}
)
"""What happens in every observation, or is judged by another window than the observation's."""

_STATES: Final[Mapping[str, str]] = {
    "active": "it drafts",
    "idle": "nothing runs",
    "stalled": "it drafts no longer",
    "disabled": "it does not speculate",
    "unreachable": "it is not seen",
}
_CAUSES: Final[Mapping[str, str]] = {
    "answers": "its answers take it long",
    "processing": "its pages take this program long",
}


def happening(event: EventView) -> Note:
    """Return an event as a note: when, what, and to whom."""
    say = SENTENCES.get(event.type)
    what = say(event.fields) if say else event.type
    engine = event.engine and f"engine {event.engine}"
    whose = " ".join(filter(None, [event.target, event.model_name, engine]))
    return Note(
        f"{what} ({whose})",
        f"{datetime.fromtimestamp(event.time, UTC):%H:%M:%S}",
        Tone.BAD if event.bad else Tone.NEUTRAL,
        foreign=True,
    )


def _reset(fields: Fields) -> str:
    why = "the server began anew" if fields["cause"] == "restart" else "they went back, and nothing says why"
    return f"The server's counters start from 0 again: {why}."


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
    "acceptance_baseline_reset": lambda _: "Acceptance stayed low for so long that it is usual now.",
    "configured_tokens_changed": lambda fields: (
        f"{fields['configured_tokens']} tokens are drafted at a time, not {fields['before']} as before: the "
        "window began anew."
    ),
    "state_changed": _state,
    "drafting_stalled": lambda _: "It drafts no longer, though it decodes.",
    "drafting_no_longer_stalled": lambda _: "It drafts again, or has nothing to do.",
    "check_broken": lambda fields: (
        f"Its counters contradict each other ({fields['check']}): do not trust the figures."
    ),
    "check_holds_again": lambda fields: f"Its counters agree with each other again ({fields['check']}).",
    "analysis_failed": lambda fields: f"A defect of this program in the {fields['part']}: {fields['error']}.",
    "analysis_works_again": lambda fields: f"What failed in this program works again: {fields['part']}.",
    "engines_forgotten": lambda _: "It gives its engines ever new names: the oldest were forgotten.",
    "engines_not_watched": lambda fields: (
        f"{fields['engines']} of its engines are not watched: the limit is {fields['kept']}."
    ),
    "server_details_not_used": lambda fields: f"Not used from {fields['source']}: {fields['reason']}.",
    "target_polled_less_often": lambda fields: (
        f"It is polled every {fields['interval']} s: {_CAUSES.get(str(fields['cause']), fields['cause'])}."
    ),
    "events_omitted": lambda fields: f"Events such as {fields['example']} are left out: there are too many.",
    "target_failing": lambda fields: f"It could not be asked: {fields['error']}.",
    "target_recovered": lambda fields: f"It answers again, after {fields['failed_polls']} failed polls.",
    "no_engine_on_page": lambda _: "Its page was read and shows no engine.",
    "poll_crashed": lambda _: "A defect of this program: its answer could not be read.",
}
"""By the event's word; every word that is about an engine or a target has one, or is quiet."""
