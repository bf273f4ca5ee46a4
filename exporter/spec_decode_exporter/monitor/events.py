"""Table of all events and log lines: the only place for their levels, fields and words.

A test compares it with every call that logs; docs/reference/log.md is generated from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from string import Formatter
from typing import Final, Literal, NamedTuple

from spec_decode_exporter.core.event import Event, Fields
from spec_decode_exporter.drops.sums import Drop, DropKind
from spec_decode_exporter.window.poll import Check

Tone = Literal["drop", "recovery", "reset", "neutral"]
"""Class of the page's style sheet; all but ``neutral`` are shown before others."""


class EventType(NamedTuple):
    """Row of the table. Only a row with a text is an event; any other is a log line alone."""

    about: str  # subject, one of ``SUBJECTS``
    name: str
    level: str  # level; of two levels the usual one comes first, and ``Event.bad`` decides
    fields: str  # fields besides those that name its subject, separated by spaces
    meaning: str  # sentence for docs/reference/log.md
    text: str = ""
    """Sentence for the page and reports. A part after ``|`` is omitted if one of its fields is empty."""
    tone: Tone = "neutral"


SUBJECTS = _E, _T, _D, _X = "Engines", "Targets", "Discovery", "Exporter"
_DROP: Final = "kind baseline_length length seconds since"
_CHECK: Final = "check drafts draft_tokens accepted_tokens accepted_by_position"
_REFUSED: Final = "malformed without_metrics contradictory rate dropped too_costly body status"

_ROWS: Final = (
    EventType(_E, "engine_found", "info", "kind", "A new engine is on the page.", "Seen for the first time"),
    EventType(_E, "engine_summary", "info", "seconds drafts …", "Summary every `log.summary_interval`; fields as above. It is no event."),
    EventType(_E, "engine_reset", "info", "cause counted_since_restart", "Counters were reset: by a `restart`, or by an unexplained `decrease`.", "The server's counters were reset: {cause}", "reset"),
    EventType(_E, "acceptance_dropped", "warning", _DROP, "The length is below its baseline, for `seconds` with drafts, since about `since`.", "Acceptance dropped ({kind}): {baseline_length} tokens a draft before, {length} at detection", "drop"),
    EventType(_E, "acceptance_recovered", "info", _DROP, "The length is back at the baseline.", "Acceptance is back ({kind} drop): {length} tokens a draft", "recovery"),
    EventType(_E, "acceptance_baseline_reset", "info", _DROP, "The drop lasted too long: the current length is the new baseline.", "Acceptance stayed low ({kind} drop): the new baseline is {length} tokens a draft", "recovery"),
    EventType(_E, "drafting_dropped", "warning", _DROP, "Fewer decode steps have a draft; tokens per step, the `length`, are below their baseline.", "Fewer steps have a draft: {baseline_length} tokens a step before, {length} at detection", "drop"),
    EventType(_E, "drafting_recovered", "info", _DROP, "Tokens per step are back at their baseline.", "Drafting is back: {length} tokens a step", "recovery"),
    EventType(_E, "drafting_baseline_reset", "info", _DROP, "The drop of drafting lasted too long: the baseline is reset.", "Drafting stayed low: the new baseline is {length} tokens a step", "recovery"),
    EventType(_E, "verdict_changed", "info, warning", "verdict before findings", "Another verdict is shown. A warning if it is `harmful`.", "Verdict: {verdict}|; it was {before}"),
    EventType(_E, "recommendation_changed", "info", "recommendation before recommended_tokens verdict", "Another action or number of draft tokens is shown.", "Advice: {recommendation}"),
    EventType(_E, "configured_tokens_changed", "info", "configured_tokens before", "K changed: windows and baseline are reset.", "The number of draft tokens K is {configured_tokens}|; it was {before}", "reset"),
    EventType(_E, "state_changed", "info, warning", "state before", "Another state, except stalls. A warning if the server answers without the engine.", "State: {state}|; it was {before}"),
    EventType(_E, "drafting_stalled", "warning", "state before", "The engine drafted before, and decoded two minutes without a draft.", "Drafting stalled: it decodes without drafts", "drop"),
    EventType(_E, "drafting_no_longer_stalled", "info", "state before", "The engine drafts again, or is idle.", "No longer stalled. State: {state}", "recovery"),
    EventType(_E, "check_broken", "warning", _CHECK, "Two successive polls broke an identity of the counters.", "The counters contradict each other ({check}): do not trust the figures", "drop"),
    EventType(_E, "check_holds_again", "info", _CHECK, "The identity holds again.", "The counters agree again ({check})", "recovery"),
    EventType(_E, "internal_error", "error", "part … exception", "An internal error: one item is omitted in one `part`, all others are served. Repeated after ten minutes if it still fails. It is an event if it is in the monitoring of an engine; else it has no `event_id`.", "Internal error in {part}: the log of this program has the details", "drop"),
    EventType(_T, "engines_not_monitored", "warning", "engines kept remedy", "The page has more engines than `limits.engines` leaves for the target.", "{engines} engines are not monitored, {kept} are: {remedy}", "drop"),
    EventType(_T, "target_failing", "warning", "reason error", "Polls fail since this one, for this reason.", "Polls fail|: {error}", "drop"),
    EventType(_T, "target_recovered", "info", "failed_polls", "A poll succeeded again.", "Polls succeed again|, after {failed_polls} that failed", "recovery"),
    EventType(_T, "no_engine_on_page", "warning", "remedy", "The page has no supported engine.", "No engine is on the page: {remedy}", "drop"),
    EventType(_T, "filtered_page_not_used", "info", "histograms", "The server does not return the filtered page; the exporter polls the whole page.", "The whole page is polled: there is no filtered one"),
    EventType(_T, "server_details_not_used", "warning", "source reason", "An answer of the server, or a schedule, is out of bounds and ignored.", "Not used from {source}: {reason}", "drop"),
    EventType(_T, "target_polled_less_often", "info, warning", "cause interval", "The interval is longer than configured: `answers` take too much of the server's time, or their `processing` more than 5 % of a core of the exporter (a warning).", "Polled only every {interval} s: {cause}"),
    EventType(_T, "baseline_read", "info", "model period source", "`baseline.prometheus` has a period without speculation; it is the baseline of this model.", "Baseline of {model} from {source}: {period}"),
    EventType(_T, "baseline_not_read", "warning", "source reason", "No baseline, or the history could not be read; the next attempt is after an hour.", "No baseline from {source}: {reason}", "drop"),
    EventType(_T, "events_omitted", "warning", "omitted example", "The targets have too many events together; `omitted` counts them since the start.", "Too many events: some are omitted, such as {example}", "drop"),
    EventType(_T, "poll_crashed", "error", "exception", "An internal error in reading a response. It is no event."),
    EventType(_D, "targets_changed", "info", "targets added removed", "The targets changed."),
    EventType(_D, "targets_not_monitored", "warning", "targets limit remedy", "More targets were discovered than `limits.engines` allows."),
    EventType(_D, "discovery_failed", "warning", "discovery reason", "A list could not be loaded; the targets stay."),
    EventType(_D, "discovery_recovered", "info", "discovery", "The list could be loaded again."),
    EventType(_D, "discovered_label_dropped", "warning", "discovery label reason", "A label has an invalid name or value, or there are too many; `all` is a limit of all targets."),
    EventType(_D, "pod_left_out", "warning", "discovery pod reason", "An annotated pod cannot be a target."),
    EventType(_X, "listening", "info", "urls version", "The exporter serves these URLs."),
    EventType(_X, "stopping", "info", "", "The exporter received a signal to stop."),
    EventType(_X, "reloaded", "info", "", "The reloaded configuration is in force."),
    EventType(_X, "reload_failed", "error", "problems", "The configuration has errors; the old one stays."),
    EventType(_X, "config_warning", "warning", "key reason", "The configuration is valid, and a value is probably not meant."),
    EventType(_X, "web_config_reloaded", "info", "file", "The reloaded file of `--web.config.file` is in force."),
    EventType(_X, "web_config_reload_failed", "error", "problems", "The file has errors; the old one stays."),
    EventType(_X, "requests_refused", "warning", _REFUSED, "Requests rejected since the last such line, by reason; at most once a minute. `body` counts bodies, the last with this HTTP `status`."),
    EventType(_X, "web_config_keys_ignored", "warning", "keys", "The file of `--web.config.file` has keys of exporter-toolkit that have no effect here."),
    EventType(_X, "connections_full", "warning", "connections reason", "The limit is reached, or the system has no descriptor or memory for another connection; the longest idle one is closed. At most once a minute."),
    EventType(_X, "variable_not_understood", "warning", "variable reason", "An environment variable about vLLM's speculation is invalid."),
    EventType(_X, "state_file_set_aside", "warning", "file kept_as reason", "The state file does not validate, as one of an earlier version: it is renamed to `kept_as`, and nothing of it is used."),
    EventType(_X, "state_file_not_written", "warning", "file reason", "The learned state could not be saved."),
    EventType(_X, "state_file_written_again", "info", "file", "The learned state was saved again."),
    EventType(_X, "request_failed", "error", "method path exception", "An internal error in a request; its response was 500."),
    EventType(_X, "task_died", "error", "exception", "An internal error ended a background task. Restart the exporter and report the error."),
)  # fmt: skip
EVENTS: Final[Mapping[str, EventType]] = {row.name: row for row in _ROWS}
EVENT_TYPES: Final = tuple(row.name for row in _ROWS if row.text)
"""Types of events of `/api/v1/events` and of the page."""

_STATES: Final = {"disabled": "off", "unknown": "not known yet"}
_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "state": _STATES,
    "before": _STATES,
    "recommendation": {
        "keep": "keep the setting",
        "increase": "draft more tokens at a time|: {recommended_tokens}",
        "decrease": "draft fewer tokens at a time|: {recommended_tokens}",
        "disable": "disable speculation",
        "limit_batch": "speculate only while few requests run",
        "switch_method": "use the other arm's method",
        "measure_cost": "measure the cost of drafting",
    },
    "cause": {
        "restart": "it restarted",
        "decrease": "they decreased for an unknown reason",
        "answers": "the server responds slowly",
        "processing": "its page takes long to process",
    },
    "check": {check: check.replace("_", " ") for check in Check},
}
"""Words for values, by field, where the value itself is not clear."""


def drop_event(drop: Drop, wall: float) -> Event:
    """Return the event of a drop, or of its end, at a Unix time."""
    subject = "drafting" if drop.kind is DropKind.DRAFTING else "acceptance"
    began = "" if drop.age is None else f"{datetime.fromtimestamp(wall - drop.age, UTC):%Y-%m-%dT%H:%M:%SZ}"
    fields: Fields = {
        "kind": str(drop.kind),
        "baseline_length": round(drop.baseline_length, 3),
        "length": round(drop.length, 3),
        "seconds": round(drop.seconds, 1),
        "since": began,
    }
    return Event(f"{subject}_{drop.transition}", fields)


def is_bad(event: Event) -> bool:
    """Return whether an operator should read an event; KeyError if the table has no row of its name."""
    return not EVENTS[event.name].level.startswith("info") if event.bad is None else event.bad


def event_text(name: str, fields: Mapping[str, object]) -> str:
    """Return the sentence of an event, without a full stop; untrusted texts in it are not escaped."""
    known = {key: _written(value) for key, value in fields.items() if value is not None and value != ""}
    words = {key: _filled(_WORDS.get(key, {}).get(text, ""), known) or text for key, text in known.items()}
    return _filled(EVENTS[name].text, words)


def fields_of(text: str) -> set[str]:
    """Return the names of the fields in a text."""
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def _filled(text: str, fields: Mapping[str, str]) -> str:
    return "".join(part.format_map(fields) for part in text.split("|") if fields_of(part) <= fields.keys())


def _written(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}" if value % 1 else f"{value:.0f}"
    return str(value)
