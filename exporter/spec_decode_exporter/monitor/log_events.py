"""ONE table: every event word that the log can have, with its level, its fields and what it means.

A test holds it against every call that logs; docs/log.md is made of it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final


class About(StrEnum):
    """What an event is about; it decides which fields every such event has."""

    ENGINE = "Engines"
    TARGET = "Targets"
    REQUESTS = "Requests"
    DISCOVERY = "Finding targets"
    EXPORTER = "The exporter itself"


COMMON_FIELDS: Final = {
    About.ENGINE: ("event_id", "target", "model_name", "engine"),
    About.TARGET: ("event_id", "target"),
    About.REQUESTS: ("event_id", "model_name"),
    About.DISCOVERY: (),
    About.EXPORTER: (),
}
"""The fields of every event about something, besides ``timestamp``, ``level`` and ``event``."""


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A row of the table."""

    about: About
    word: str
    level: str
    """Where it has two, the graver one after a comma."""
    fields: tuple[str, ...]
    """Beyond those that every event about such a thing has."""
    meaning: str


_CHECK_FIELDS: Final = ("check", "drafts", "draft_tokens", "accepted_tokens", "accepted_by_position")
_MIX_FIELDS: Final = ("window", "requests", "mean_acceptance_ratio", "p10_acceptance_ratio")
_LOSS_FIELDS: Final = ("request_type", "temperature", "window", "requests", "speedup_ratio")
_DROP_FIELDS: Final = ("kind", "baseline_acceptance_length", "acceptance_length", "seconds")

LOG_EVENTS: Final = tuple(
    LogEvent(*row)
    for row in (
        (About.ENGINE, "engine_found", "info", ("kind",), "An engine is on the page that was not there before: vLLM's, or another server's by its `kind`."),
        (About.ENGINE, "engine_summary", "info", ("seconds", "drafts", "…"), "How the engine does, every `log.summary_interval`; its fields are above. No event: it has no `event_id`."),
        (About.ENGINE, "engine_reset", "info", ("cause", "counted_since_restart"), "The server's counters began anew: by a `restart`, or a `decrease` that nothing explains."),
        (About.ENGINE, "acceptance_dropped", "warning", _DROP_FIELDS, "The acceptance length is below what is usual for the engine, by a `sudden` drop or a `slow` one; it has been so for `seconds` with drafts."),
        (About.ENGINE, "acceptance_recovered", "info", _DROP_FIELDS, "It is usual again, and has been for `seconds`."),
        (About.ENGINE, "acceptance_baseline_learnt_anew", "info", _DROP_FIELDS, "It stayed low for so long that this is usual from now on."),
        (About.ENGINE, "verdict_changed", "info, warning", ("verdict", "before", "findings"), "Another verdict, which has stood for a minute. A warning if it is `harmful`."),
        (About.ENGINE, "recommendation_changed", "info", ("recommendation", "before", "recommended_tokens", "verdict"), "Other advice, or another number of tokens to draft."),
        (About.ENGINE, "configured_tokens_changed", "info", ("configured_tokens", "before"), "K is another: the windows and the baseline begin anew."),
        (About.ENGINE, "state_changed", "info, warning", ("state", "before"), "Another state, stalls apart. `unreachable` is told with the first poll, failed or not, after it was not seen for too long: a warning where the server answers and no longer shows the engine."),
        (About.ENGINE, "drafting_stalled", "warning", ("state", "before"), "It drafted before, and did not for a whole long window in which it decoded."),
        (About.ENGINE, "drafting_no_longer_stalled", "info", ("state", "before"), "It drafts again, or has nothing to do."),
        (About.ENGINE, "check_broken", "warning", _CHECK_FIELDS, "Two polls in succession broke an identity of the counters: do not trust the figures it is about."),
        (About.ENGINE, "check_holds_again", "info", _CHECK_FIELDS, "It holds again."),
        (About.ENGINE, "analysis_failed", "warning", ("part", "error", "exception"), "A defect of the exporter's in one part of the analysis; the counters and the other parts go on."),
        (About.ENGINE, "analysis_works_again", "info", ("part",), "That part has worked for a minute."),
        (About.TARGET, "engines_forgotten", "warning", ("kept", "remedy"), "The server gives its engines or models ever new names: the oldest are forgotten. Said again after ten minutes at the earliest; meanwhile new engines are not told."),
        (About.TARGET, "engines_not_watched", "warning", ("engines", "kept", "remedy"), "The page shows more engines than `limits.engines` leaves for the target. Logged once until all are watched."),
        (About.TARGET, "target_failing", "warning", ("reason", "error"), "Polls fail, since this one, for this reason. Told again when the reason is another."),
        (About.TARGET, "target_recovered", "info", ("failed_polls",), "A poll succeeded again."),
        (About.TARGET, "no_engine_on_page", "warning", ("remedy",), "The page was read, and shows no engine that the exporter knows."),
        (About.TARGET, "filtered_page_not_used", "info", ("histograms",), "The server does not answer the short page, so the whole one is asked for."),
        (About.TARGET, "server_details_not_used", "warning", ("source", "reason"), "Something that a server or its pod says is beyond a bound: the answer to `version` or `server_info`, or the schedule in `server_info` or `pod_arguments`. It counts as not said. Logged once for each source and reason."),
        (About.TARGET, "target_polled_less_often", "info, warning", ("cause", "interval"), "The poll interval, in seconds, is longer than configured: the `answers` take more than `poll.max_duty_cycle` of the server's time, or their `processing` takes more than 5 % of a core here, which is a warning. Logged again after ten minutes at the configured interval."),
        (About.TARGET, "events_omitted", "warning", ("omitted", "example", "discovery"), "The target and its engines change state so often that events are left out: 1,024 at once are recorded, then one every six seconds. With `discovery` instead of `target`: the same for all targets of one list together, four for each engine of `limits.engines` and then one a second. Repeated after ten minutes at the earliest; `omitted` counts since the start."),
        (About.TARGET, "poll_crashed", "error", ("exception",), "A defect of the exporter's in reading an answer; told once, until a poll succeeds. No event: it has no `event_id`."),
        (About.REQUESTS, "mixed_workload_began", "warning", _MIX_FIELDS, "A model's requests are of two kinds that its mean hides, and have been for a minute: two populations, or some that lose while the whole gains."),
        (About.REQUESTS, "mixed_workload_ended", "info", _MIX_FIELDS, "They no longer are, or there are too few to say."),
        (About.REQUESTS, "requests_lose", "warning", _LOSS_FIELDS, "Requests of this type and temperature are surely slower by speculation, and have been for a minute."),
        (About.REQUESTS, "requests_below_break_even_ended", "info", _LOSS_FIELDS, "They no longer are, or there are too few to say."),
        (About.DISCOVERY, "targets_changed", "info", ("targets", "added", "removed"), "Other servers are watched. At most 60 lines at once, then one a minute, which counts the changes since the line before it."),
        (About.DISCOVERY, "targets_not_watched", "warning", ("targets", "limit", "remedy"), "More targets were found than `limits.engines` allows; that many are not watched. Logged once until all are watched."),
        (About.DISCOVERY, "discovery_failed", "warning", ("discovery", "reason"), "A list of targets could not be had; the targets stay as they are. At most 10 lines of each list at once with those of `discovery_recovered`, then one in five minutes."),
        (About.DISCOVERY, "discovery_recovered", "info", ("discovery",), "It could be had again."),
        (About.DISCOVERY, "discovered_label_dropped", "warning", ("discovery", "label", "reason"), "Discovery gives a label that a target may not have: by its name, its value or the number of labels. Logged once for each label or limit; `all` is a limit of all targets together."),
        (About.DISCOVERY, "pod_left_out", "warning", ("discovery", "pod", "reason"), "A pod that asks to be watched cannot be. At most 100 lines of one namespace at once, then one a minute."),
        (About.EXPORTER, "listening", "info", ("urls", "version"), "It serves."),
        (About.EXPORTER, "stopping", "info", (), "It was told to end."),
        (About.EXPORTER, "reloaded", "info", (), "The configuration was read again, and is in force."),
        (About.EXPORTER, "reload_failed", "error", ("problems",), "It has mistakes; the old one stays in force."),
        (About.EXPORTER, "web_config_reloaded", "info", ("file",), "The file of `--web.config.file` was read again, and is in force."),
        (About.EXPORTER, "web_config_reload_failed", "error", ("problems",), "It has mistakes; the old one stays in force."),
        (About.EXPORTER, "requests_failed", "error", ("exception",), "A defect of the exporter's in what the requests say; told once, until it works. The engines go on."),
        (About.EXPORTER, "requests_refused", "warning", ("malformed", "without_metrics", "contradictory", "rate", "dropped", "too_costly", "body", "status"), "Requests that were rejected at `/api/v1/requests` since the last such line, by reason; `dropped` and `too_costly` are counted by their senders, `body` counts whole rejected bodies, the last one with this HTTP `status`. Logged once a minute at most."),
        (About.EXPORTER, "connections_full", "warning", ("connections",), "As many clients are connected as are let in; who waits longest is sent away."),
        (About.EXPORTER, "connections_not_taken", "warning", ("connections", "reason"), "The process has no descriptor or memory left for another connection; who waits longest is sent away. Told again only after a minute without."),
        (About.EXPORTER, "variable_not_understood", "warning", ("variable", "reason"), "An environment variable that says how vLLM speculates could not be read."),
        (About.EXPORTER, "state_file_set_aside", "warning", ("file", "kept_as", "reason"), "The state file could not be used; it was kept under another name."),
        (About.EXPORTER, "state_file_not_written", "warning", ("file", "reason"), "What was learnt could not be saved; told once, until it can be."),
        (About.EXPORTER, "state_file_written_again", "info", ("file",), "It was saved again."),
        (About.EXPORTER, "saving_failed", "error", ("exception",), "A defect of the exporter's in saving; told once, until it works."),
        (About.EXPORTER, "baselines_forgotten", "warning", ("forgotten", "most_kept"), "More engines came and went than are remembered."),
        (About.EXPORTER, "internal_error", "error", ("part", "…", "exception"), "An internal error. The exporter omits one item (`target`, `model_name`, `engine`, `experiment`, `arm`, `request_type`, `temperature`, `user`, as far as they name it) in one `part` and serves all others. Logged once until it works again, for at most 20 items of a part."),
        (About.EXPORTER, "internal_error_ended", "info", ("part", "…"), "That item has worked in that part for a minute."),
        (About.EXPORTER, "metrics_left_out", "error", ("source", "exception"), "An internal error in one source of metrics; the others are served."),
        (About.EXPORTER, "request_failed", "error", ("method", "path", "exception"), "A defect of the exporter's in answering a request; it was answered with 500."),
        (About.EXPORTER, "connection_failed", "error", ("exception",), "A defect of the exporter's in taking a connection. It goes on to take others a second later, and says so again after a minute without one."),
        (About.EXPORTER, "task_died", "error", ("exception",), "A defect of the exporter's ended a task in the background. Restart it, and tell us."),
    )
)  # fmt: skip

_NO_EVENTS: Final = frozenset({"engine_summary", "poll_crashed"})
"""What is logged of engines and targets, and is no event."""

EVENT_TYPES: Final = tuple(
    event.word
    for event in LOG_EVENTS
    if event.about in (About.ENGINE, About.TARGET, About.REQUESTS) and event.word not in _NO_EVENTS
)
"""The types of events, which `/api/v1/events` and the page have too."""

_BEGIN: Final = "<!-- Generated from exporter/spec_decode_exporter/monitor/log_events.py by `make docs`. Change the rows there. -->\n"
_END: Final = "<!-- End of what is generated. -->\n"


def markdown() -> str:
    """Return the tables of docs/log.md."""
    return "\n".join(map(_table, About))


def _table(about: About) -> str:
    common = COMMON_FIELDS[about]
    introduction = f"Each has {_written(common)}.\n\n" if common else ""
    rows = [_row(event) for event in LOG_EVENTS if event.about is about]
    head = ["| Event | Level | Fields | Meaning |", "|---|---|---|---|"]
    return f"### {about}\n\n{introduction}" + "\n".join([*head, *rows, ""])


def _row(event: LogEvent) -> str:
    return f"| `{event.word}` | {event.level} | {_written(event.fields)} | {event.meaning} |"


def _written(names: tuple[str, ...]) -> str:
    return ", ".join(name if name == "…" else f"`{name}`" for name in names)


def replaced(text: str) -> str:
    """Return a document with its tables written anew."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{markdown()}\n{_END}{after}"


def main(arguments: list[str]) -> None:
    """Write the tables anew in the document at the path given."""
    (path,) = map(Path, arguments)
    path.write_text(replaced(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
