"""Table of all log events: word, level, fields and meaning.

A test compares it with every call that logs; docs/reference/log.md is generated from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class About(StrEnum):
    """Subject of an event; events of a subject share fields."""

    ENGINE = "Engines"
    TARGET = "Targets"
    REQUESTS = "Requests"
    DISCOVERY = "Discovery"
    EXPORTER = "Exporter"


COMMON_FIELDS: Final = {
    About.ENGINE: ("event_id", "target", "model_name", "engine"),
    About.TARGET: ("event_id", "target"),
    About.REQUESTS: ("event_id", "model_name"),
    About.DISCOVERY: (),
    About.EXPORTER: (),
}
"""Fields of all events of a subject, besides ``timestamp``, ``level`` and ``event``."""


@dataclass(frozen=True, slots=True)
class LogEvent:
    """Row of the table."""

    about: About
    word: str
    level: str
    """Level; of two levels the more severe one comes after a comma."""
    fields: tuple[str, ...]
    """Fields besides the common ones of its subject."""
    meaning: str


_CHECK_FIELDS: Final = ("check", "drafts", "draft_tokens", "accepted_tokens", "accepted_by_position")
_MIXED_FIELDS: Final = ("window", "requests", "mean_acceptance_ratio", "p10_acceptance_ratio")
_BREAK_EVEN_FIELDS: Final = ("request_type", "temperature", "window", "requests", "speedup_ratio")
_DROP_FIELDS: Final = ("kind", "baseline_acceptance_length", "acceptance_length", "seconds", "since")
_DRAFTING_FIELDS: Final = ("baseline_tokens_per_step", "tokens_per_step", "seconds", "since")

LOG_EVENTS: Final = tuple(
    LogEvent(*row)
    for row in (
        (About.ENGINE, "engine_found", "info", ("kind",), "A new engine is on the page."),
        (About.ENGINE, "engine_summary", "info", ("seconds", "drafts", "…"), "Summary every `log.summary_interval`; fields as above. It is no event."),
        (About.ENGINE, "engine_reset", "info", ("cause", "counted_since_restart"), "Counters were reset: by a `restart`, or by an unexplained `decrease`."),
        (About.ENGINE, "acceptance_dropped", "warning", _DROP_FIELDS, "The length is below its baseline, by a `sudden` or `slow` drop, for `seconds` with drafts, since about `since`."),
        (About.ENGINE, "acceptance_recovered", "info", _DROP_FIELDS, "The length is back at the baseline."),
        (About.ENGINE, "acceptance_baseline_reset", "info", _DROP_FIELDS, "The drop lasted too long: the present length is the new baseline."),
        (About.ENGINE, "drafting_dropped", "warning", _DRAFTING_FIELDS, "Fewer decode steps have a draft; tokens per step are below their baseline."),
        (About.ENGINE, "drafting_recovered", "info", _DRAFTING_FIELDS, "Tokens per step are back at their baseline."),
        (About.ENGINE, "drafting_baseline_reset", "info", _DRAFTING_FIELDS, "The drop of drafting lasted too long: the baseline is reset."),
        (About.ENGINE, "verdict_changed", "info, warning", ("verdict", "before", "findings"), "Another verdict for at least a minute. A warning if it is `harmful`."),
        (About.ENGINE, "recommendation_changed", "info", ("recommendation", "before", "recommended_tokens", "verdict"), "Another action or number of draft tokens."),
        (About.ENGINE, "configured_tokens_changed", "info", ("configured_tokens", "before"), "K changed: windows and baseline are reset."),
        (About.ENGINE, "state_changed", "info, warning", ("state", "before"), "Another state, except stalls. A warning if the server answers without the engine."),
        (About.ENGINE, "drafting_stalled", "warning", ("state", "before"), "The engine drafted before, and decoded two minutes without a draft."),
        (About.ENGINE, "drafting_no_longer_stalled", "info", ("state", "before"), "The engine drafts again, or is idle."),
        (About.ENGINE, "check_broken", "warning", _CHECK_FIELDS, "Two successive polls broke an identity of the counters."),
        (About.ENGINE, "check_holds_again", "info", _CHECK_FIELDS, "The identity holds again."),
        (About.ENGINE, "analysis_failed", "warning", ("part", "error", "exception"), "An internal error in one part of the analysis; the others work."),
        (About.ENGINE, "analysis_works_again", "info", ("part",), "That part has worked for a minute."),
        (About.TARGET, "engines_evicted", "warning", ("kept", "remedy"), "The server invents names; the oldest engines are evicted."),
        (About.TARGET, "engines_not_monitored", "warning", ("engines", "kept", "remedy"), "The page has more engines than `limits.engines` leaves for the target."),
        (About.TARGET, "target_failing", "warning", ("reason", "error"), "Polls fail since this one, for this reason."),
        (About.TARGET, "target_recovered", "info", ("failed_polls",), "A poll succeeded again."),
        (About.TARGET, "no_engine_on_page", "warning", ("remedy",), "The page has no supported engine."),
        (About.TARGET, "filtered_page_not_used", "info", ("histograms",), "The server does not return the filtered page; the exporter polls the whole page."),
        (About.TARGET, "server_details_not_used", "warning", ("source", "reason"), "An answer of the server, or a schedule, is out of bounds and ignored."),
        (About.TARGET, "target_polled_less_often", "info, warning", ("cause", "interval"), "The interval is longer than configured: `answers` take too much of the server's time, or their `processing` more than 5 % of a core of the exporter (a warning)."),
        (About.TARGET, "baseline_read", "info", ("model", "period", "source"), "`baseline.prometheus` has a period without speculation; it is the baseline of this model."),
        (About.TARGET, "baseline_not_read", "warning", ("source", "reason"), "No baseline, or the history could not be read; the next attempt is after an hour."),
        (About.TARGET, "events_omitted", "warning", ("omitted", "example", "discovery"), "A target, or all targets of a list, have too many events; `omitted` counts since the start."),
        (About.TARGET, "poll_crashed", "error", ("exception",), "An internal error in reading a response. It is no event."),
        (About.REQUESTS, "mixed_workload_began", "warning", _MIXED_FIELDS, "Two populations, or some requests below break-even while the mean is above."),
        (About.REQUESTS, "mixed_workload_ended", "info", _MIXED_FIELDS, "No longer, or too few requests."),
        (About.REQUESTS, "requests_below_break_even", "warning", _BREAK_EVEN_FIELDS, "Requests of this type and temperature are significantly slower by speculation (95 %)."),
        (About.REQUESTS, "requests_below_break_even_ended", "info", _BREAK_EVEN_FIELDS, "No longer, or too few."),
        (About.DISCOVERY, "targets_changed", "info", ("targets", "added", "removed"), "The targets changed."),
        (About.DISCOVERY, "targets_not_monitored", "warning", ("targets", "limit", "remedy"), "More targets were discovered than `limits.engines` allows."),
        (About.DISCOVERY, "discovery_failed", "warning", ("discovery", "reason"), "A list could not be loaded; the targets stay."),
        (About.DISCOVERY, "discovery_recovered", "info", ("discovery",), "The list could be loaded again."),
        (About.DISCOVERY, "discovered_label_dropped", "warning", ("discovery", "label", "reason"), "A label has an invalid name or value, or there are too many; `all` is a limit of all targets."),
        (About.DISCOVERY, "pod_left_out", "warning", ("discovery", "pod", "reason"), "An annotated pod cannot be a target."),
        (About.EXPORTER, "listening", "info", ("urls", "version"), "The exporter serves these URLs."),
        (About.EXPORTER, "stopping", "info", (), "The exporter received a signal to stop."),
        (About.EXPORTER, "log_lines_dropped", "warning", ("lines",), "The reader of the log did not read; this number of lines was dropped."),
        (About.EXPORTER, "stopped_late", "error", ("seconds",), "Closing connections or saving the state took too long."),
        (About.EXPORTER, "reloaded", "info", (), "The reloaded configuration is in force."),
        (About.EXPORTER, "reload_failed", "error", ("problems",), "The configuration has errors; the old one stays."),
        (About.EXPORTER, "config_warning", "warning", ("key", "reason"), "The configuration is valid, and a value is probably not meant."),
        (About.EXPORTER, "web_config_reloaded", "info", ("file",), "The reloaded file of `--web.config.file` is in force."),
        (About.EXPORTER, "web_config_reload_failed", "error", ("problems",), "The file has errors; the old one stays."),
        (About.EXPORTER, "requests_failed", "error", ("exception",), "An internal error in the evaluation of requests; engines are not affected."),
        (About.EXPORTER, "requests_refused", "warning", ("malformed", "without_metrics", "contradictory", "rate", "dropped", "too_costly", "body", "status"), "Requests rejected since the last such line, by reason; at most once a minute. `body` counts bodies, the last with this HTTP `status`."),
        (About.EXPORTER, "connections_full", "warning", ("connections",), "The limit is reached; the longest idle connection is closed."),
        (About.EXPORTER, "connections_not_taken", "warning", ("connections", "reason"), "No descriptor or memory for another connection; the longest idle one is closed."),
        (About.EXPORTER, "variable_not_understood", "warning", ("variable", "reason"), "An environment variable about vLLM's speculation is invalid."),
        (About.EXPORTER, "state_file_set_aside", "warning", ("file", "kept_as", "reason"), "The state file was invalid and is renamed to `kept_as`."),
        (About.EXPORTER, "state_file_not_written", "warning", ("file", "reason"), "The learned state could not be saved."),
        (About.EXPORTER, "state_file_written_again", "info", ("file",), "The learned state was saved again."),
        (About.EXPORTER, "saving_failed", "error", ("exception",), "An internal error in saving."),
        (About.EXPORTER, "baselines_forgotten", "warning", ("forgotten", "most_kept"), "More engines than the state can hold; the oldest are forgotten."),
        (About.EXPORTER, "internal_error", "error", ("part", "…", "exception"), "An internal error: the exporter omits one item in one `part` and serves all others."),
        (About.EXPORTER, "internal_error_ended", "info", ("part", "…"), "That item has worked for a minute."),
        (About.EXPORTER, "request_failed", "error", ("method", "path", "exception"), "An internal error in a request; its response was 500."),
        (About.EXPORTER, "connection_failed", "error", ("exception",), "An internal error in accepting a connection."),
        (About.EXPORTER, "task_died", "error", ("exception",), "An internal error ended a background task. Restart the exporter and report the error."),
    )
)  # fmt: skip

_NO_EVENTS: Final = frozenset({"engine_summary", "poll_crashed"})
"""Log lines about engines and targets that are no events."""

EVENT_TYPES: Final = tuple(
    event.word
    for event in LOG_EVENTS
    if event.about in (About.ENGINE, About.TARGET, About.REQUESTS) and event.word not in _NO_EVENTS
)
"""Types of events of `/api/v1/events` and of the page."""
