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
        (About.ENGINE, "engine_found", "info", ("kind",), "A new engine is on the page, of vLLM or of another server by its `kind`."),
        (About.ENGINE, "engine_summary", "info", ("seconds", "drafts", "…"), "Summary of the engine every `log.summary_interval`; its fields are above. It is no event and has no `event_id`."),
        (About.ENGINE, "engine_reset", "info", ("cause", "counted_since_restart"), "The server's counters were reset: by a `restart`, or by an unexplained `decrease`."),
        (About.ENGINE, "acceptance_dropped", "warning", _DROP_FIELDS, "The acceptance length is below the engine's baseline, by a `sudden` or a `slow` drop, for `seconds` with drafts. `since` is the most likely begin of a sudden one, and empty for a slow one."),
        (About.ENGINE, "acceptance_recovered", "info", _DROP_FIELDS, "The acceptance length is back at the baseline, for `seconds` with drafts."),
        (About.ENGINE, "traffic_changed", "info", _DROP_FIELDS, "The acceptance length fell as far as a slow drop, by another mix of request types alone."),
        (About.ENGINE, "acceptance_baseline_reset", "info", _DROP_FIELDS, "The drop lasted too long: the baseline is reset to the present acceptance length."),
        (About.ENGINE, "drafting_dropped", "warning", _DRAFTING_FIELDS, "Fewer decode steps have a draft, and the tokens per decode step are below their baseline, for `seconds` with decode steps."),
        (About.ENGINE, "drafting_recovered", "info", _DRAFTING_FIELDS, "The tokens per decode step are back at their baseline."),
        (About.ENGINE, "drafting_baseline_reset", "info", _DRAFTING_FIELDS, "The drop of drafting lasted too long: its baseline is reset to the present tokens per decode step."),
        (About.ENGINE, "verdict_changed", "info, warning", ("verdict", "before", "findings"), "Another verdict for at least a minute. A warning if it is `harmful`."),
        (About.ENGINE, "recommendation_changed", "info", ("recommendation", "before", "recommended_tokens", "verdict"), "Another recommended action, or another number of draft tokens."),
        (About.ENGINE, "configured_tokens_changed", "info", ("configured_tokens", "before"), "K changed: the windows and the baseline are reset."),
        (About.ENGINE, "state_changed", "info, warning", ("state", "before"), "Another state, except stalls. `unreachable` is logged at the first poll, failed or not, after the engine was absent for too long: a warning if the server answers without the engine."),
        (About.ENGINE, "drafting_stalled", "warning", ("state", "before"), "The engine drafted before, and did not for two minutes in which it decoded."),
        (About.ENGINE, "drafting_no_longer_stalled", "info", ("state", "before"), "The engine drafts again, or is idle."),
        (About.ENGINE, "check_broken", "warning", _CHECK_FIELDS, "Two successive polls broke an identity of the counters: do not trust the figures that depend on it."),
        (About.ENGINE, "check_holds_again", "info", _CHECK_FIELDS, "The identity holds again."),
        (About.ENGINE, "analysis_failed", "warning", ("part", "error", "exception"), "An internal error in one part of the analysis; the counters and the other parts are not affected."),
        (About.ENGINE, "analysis_works_again", "info", ("part",), "That part of the analysis has worked for a minute."),
        (About.TARGET, "engines_evicted", "warning", ("kept", "remedy"), "The server gives its engines or models ever new names, and the oldest are evicted. Logged again after ten minutes at the earliest; until then new engines are not logged."),
        (About.TARGET, "engines_not_monitored", "warning", ("engines", "kept", "remedy"), "The page has more engines than `limits.engines` leaves for the target. Logged once until all are monitored."),
        (About.TARGET, "target_failing", "warning", ("reason", "error"), "Polls fail since this one. Logged again when the reason changes."),
        (About.TARGET, "target_recovered", "info", ("failed_polls",), "A poll succeeded again."),
        (About.TARGET, "no_engine_on_page", "warning", ("remedy",), "The page has no engine that the exporter supports."),
        (About.TARGET, "filtered_page_not_used", "info", ("histograms",), "The server does not return the filtered page; the exporter polls the whole page."),
        (About.TARGET, "server_details_not_used", "warning", ("source", "reason"), "A value of the server or its pod is out of bounds and is ignored: the response of `version` or `server_info`, or the schedule in `server_info` or `pod_arguments`. Logged once for each source and reason."),
        (About.TARGET, "target_polled_less_often", "info, warning", ("cause", "interval"), "The poll interval, in seconds, is longer than configured: the `answers` take more than `poll.max_duty_cycle` of the server's time, or their `processing` takes more than 5 % of a core of the exporter, which is a warning. Logged again after ten minutes at the configured interval."),
        (About.TARGET, "baseline_read", "info", ("model", "period", "source"), "The history of `baseline.prometheus` has a period without speculation; it is now the baseline of this model."),
        (About.TARGET, "baseline_not_read", "warning", ("source", "reason"), "The history has no baseline of the target, or could not be read; the next attempt is after an hour. Logged again when the reason changes."),
        (About.TARGET, "events_omitted", "warning", ("omitted", "example", "discovery"), "The target and its engines have too many events: a burst of 1,024 is recorded, then one every six seconds. With `discovery` instead of `target`: all targets of one list together, with a burst of four for each engine of `limits.engines`, then one a second. Logged again after ten minutes at the earliest; `omitted` counts since the start."),
        (About.TARGET, "poll_crashed", "error", ("exception",), "An internal error in reading a response. Logged once until a poll succeeds. It is no event and has no `event_id`."),
        (About.REQUESTS, "mixed_workload_began", "warning", _MIXED_FIELDS, "A model has a mixed workload, for at least a minute: two populations, or some requests below break-even while the mean is above."),
        (About.REQUESTS, "mixed_workload_ended", "info", _MIXED_FIELDS, "The model no longer has a mixed workload, or has too few requests."),
        (About.REQUESTS, "requests_below_break_even", "warning", _BREAK_EVEN_FIELDS, "Requests of this type and temperature are significantly slower by speculation (95 %), for at least a minute."),
        (About.REQUESTS, "requests_below_break_even_ended", "info", _BREAK_EVEN_FIELDS, "They no longer are, or are too few."),
        (About.DISCOVERY, "targets_changed", "info", ("targets", "added", "removed"), "The targets changed. A burst of 60 lines, then one a minute, which counts the changes since the previous line."),
        (About.DISCOVERY, "targets_not_monitored", "warning", ("targets", "limit", "remedy"), "More targets were discovered than `limits.engines` allows; `targets` of them are not monitored. Logged once until all are monitored."),
        (About.DISCOVERY, "discovery_failed", "warning", ("discovery", "reason"), "A list of targets could not be loaded; the targets stay as they are. A burst of 10 lines of each list, together with `discovery_recovered`, then one in five minutes."),
        (About.DISCOVERY, "discovery_recovered", "info", ("discovery",), "The list could be loaded again."),
        (About.DISCOVERY, "discovered_label_dropped", "warning", ("discovery", "label", "reason"), "Discovery returned a label with an invalid name or value, or too many labels. Logged once for each label or limit; `all` is a limit of all targets together."),
        (About.DISCOVERY, "pod_left_out", "warning", ("discovery", "pod", "reason"), "An annotated pod cannot be a target. A burst of 100 lines of one namespace, then one a minute."),
        (About.EXPORTER, "listening", "info", ("urls", "version"), "The exporter serves these URLs."),
        (About.EXPORTER, "stopping", "info", (), "The exporter received a signal to stop."),
        (About.EXPORTER, "log_lines_dropped", "warning", ("lines",), "The reader of the log did not read, and this number of lines was dropped. Logged once it reads again."),
        (About.EXPORTER, "stopped_late", "error", ("seconds",), "Closing connections or saving the state took too long; the process ended without it."),
        (About.EXPORTER, "reloaded", "info", (), "The configuration was reloaded and is in force."),
        (About.EXPORTER, "reload_failed", "error", ("problems",), "The configuration has errors; the old one stays in force."),
        (About.EXPORTER, "config_warning", "warning", ("key", "reason"), "The configuration is valid, and a value in it is probably not meant, such as an unknown `speculative.method`. Logged at the start and after a reload."),
        (About.EXPORTER, "web_config_reloaded", "info", ("file",), "The file of `--web.config.file` was reloaded and is in force."),
        (About.EXPORTER, "web_config_reload_failed", "error", ("problems",), "The file has errors; the old one stays in force."),
        (About.EXPORTER, "requests_failed", "error", ("exception",), "An internal error in the evaluation of requests. Logged once until it works; engines are not affected."),
        (About.EXPORTER, "requests_refused", "warning", ("malformed", "without_metrics", "contradictory", "rate", "dropped", "too_costly", "body", "status"), "Requests rejected at `/api/v1/requests` since the last such line, by reason. Senders count `dropped` and `too_costly`. `body` counts rejected bodies; the last one had this HTTP `status`. Logged at most once a minute."),
        (About.EXPORTER, "connections_full", "warning", ("connections",), "The limit of connections is reached; the exporter closes the longest idle connection."),
        (About.EXPORTER, "connections_not_taken", "warning", ("connections", "reason"), "The process has no descriptor or memory for another connection; the exporter closes the longest idle one. Logged again after a minute without it."),
        (About.EXPORTER, "variable_not_understood", "warning", ("variable", "reason"), "An environment variable about vLLM's speculation is invalid."),
        (About.EXPORTER, "state_file_set_aside", "warning", ("file", "kept_as", "reason"), "The state file was invalid; it was renamed to `kept_as`."),
        (About.EXPORTER, "state_file_not_written", "warning", ("file", "reason"), "The learned state could not be saved. Logged once until it can be."),
        (About.EXPORTER, "state_file_written_again", "info", ("file",), "The learned state was saved again."),
        (About.EXPORTER, "saving_failed", "error", ("exception",), "An internal error in saving. Logged once until it works."),
        (About.EXPORTER, "baselines_forgotten", "warning", ("forgotten", "most_kept"), "More engines were seen than the state can hold; the oldest are forgotten."),
        (About.EXPORTER, "internal_error", "error", ("part", "…", "exception"), "An internal error. The exporter omits one item (by the fields `target`, `model_name`, `engine`, `experiment`, `arm`, `request_type`, `temperature`, `user`) in one `part` and serves all others. Logged once until it works again, for at most 20 items of a part."),
        (About.EXPORTER, "internal_error_ended", "info", ("part", "…"), "That item has worked in that part for a minute."),
        (About.EXPORTER, "metrics_left_out", "error", ("source", "exception"), "An internal error in one source of metrics; the others are served."),
        (About.EXPORTER, "request_failed", "error", ("method", "path", "exception"), "An internal error in a request; its response was 500."),
        (About.EXPORTER, "connection_failed", "error", ("exception",), "An internal error in accepting a connection. The exporter accepts others a second later. Logged again after a minute without it."),
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
