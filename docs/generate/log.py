"""Generator of the tables in docs/reference/log.md: ``python -m docs.generate.log docs/reference/log.md``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from spec_decode_exporter.monitor.log_events import COMMON_FIELDS, LOG_EVENTS, About, LogEvent

_BEGIN: Final = (
    "<!-- Generated from exporter/spec_decode_exporter/monitor/log_events.py by `make docs`. "
    "Change the rows there. -->\n"
)
_END: Final = "<!-- End of what is generated. -->\n"


def markdown() -> str:
    """Return the tables of docs/reference/log.md."""
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


def with_tables(text: str) -> str:
    """Return a document with new tables."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{markdown()}\n{_END}{after}"


def main(arguments: list[str]) -> None:
    """Replace the tables of the document at the given path."""
    (path,) = map(Path, arguments)
    path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
