"""Command lines of the exporter in README and docs/guide, each with the way to test it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from enum import StrEnum

from .documents import DOCS

PROGRAM = "spec-decode-exporter"
PAGES = (DOCS.parent / "README.md", *sorted((DOCS / "guide").glob("*.md")))
_FENCED = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", flags=re.MULTILINE | re.DOTALL)
_SHELLS = {"", "sh", "console", "bash"}
_INDENTED = re.compile(r"(?:^(?:    |\t).*\n)+", flags=re.MULTILINE)
_COMMAND = re.compile(rf"(?:^|[;&|] *)(?:[A-Z_]+=\S* )*((?:{PROGRAM}|python3? -m \S+)(?: .*)?)$")
_REST = re.compile(r" +(?:\||>|#|&|2>).*$")


class Way(StrEnum):
    """Way to test a command line."""

    SERVERS = "observe servers"
    SIMULATION = "observe an embedded simulation"
    HISTORY = "observe the history of a Prometheus"
    REPLAY = "observe a recording"
    RECOMMEND = "ask a server, or a running exporter"
    CHECK = "check a configuration"
    SERVICE = "run the exporter, and stop it"
    SIMULATE = "run the simulator, and stop it"
    ALONE = "run without anything else"
    PARSED = "parse the command line: it needs a cluster, a model on disk or hours"


WAYS = (
    (r"python3? -m benchmarks", Way.PARSED),
    (r"simulate", Way.SIMULATE),
    (r"check-config", Way.CHECK),
    (r"plan .*/.*", Way.PARSED),
    (r"plan", Way.ALONE),
    (r"middleware", Way.ALONE),
    (r"recommend", Way.RECOMMEND),
    (r"observe .*--replay", Way.REPLAY),
    (r"observe .*--simulate", Way.SIMULATION),
    (r"observe (?:.* )?--prometheus\.url", Way.HISTORY),
    (r"observe", Way.SERVERS),
    (r"run", Way.SERVICE),
    (r"--(?:target|speculative\.\S+|cost\.\S+|config\.file)|", Way.SERVICE),
)
"""Ways by the words after the program; the first one that matches counts."""


@dataclass(frozen=True)
class Documented:
    """A command line and its page."""

    page: str
    line: str

    @property
    def words(self):
        return shlex.split(self.line)

    @property
    def way(self):
        """Return the way to test it; None if no way is known."""
        rest = self.line.removeprefix(PROGRAM).strip()
        return next((way for pattern, way in WAYS if re.match(rf"(?:{pattern})(?: |=|$)", rest)), None)

    def __str__(self):
        return f"{self.page}: {self.line}"


def command_lines(text):
    """Return the exporter's command lines of a page, without prompts, redirections, pipes and comments."""
    blocks = [block for language, block in _FENCED.findall(text) if language in _SHELLS]
    blocks += _INDENTED.findall(_FENCED.sub("", text))
    lines = (line for block in blocks for line in re.sub(r"\\\n\s*", "", block).splitlines())
    matches = (_COMMAND.search(_REST.sub("", line.strip().removeprefix("$ "))) for line in lines)
    return [match[1] for match in matches if match]


def documented():
    """Return every command line of README and the guide, once."""
    pages = {path.name: command_lines(path.read_text(encoding="utf-8")) for path in PAGES}
    first = {line: page for page, lines in reversed(pages.items()) for line in lines}
    return [
        Documented(page, line) for line, page in sorted(first.items(), key=lambda each: (each[1], each[0]))
    ]
