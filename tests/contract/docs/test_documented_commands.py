"""Every command line of README and docs/guide is valid."""

import importlib.util
import re

from tests.every import every

from .documents import DOCS, wrong_command

PROGRAM = "spec-decode-exporter"
PAGES = (DOCS.parent / "README.md", *sorted((DOCS / "guide").glob("*.md")))
_FENCED = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", flags=re.MULTILINE | re.DOTALL)
_SHELLS = {"", "sh", "console", "bash"}
_INDENTED = re.compile(r"(?:^(?:    |\t).*\n)+", flags=re.MULTILINE)
_COMMAND = re.compile(rf"(?:^|[;&|] *)(?:[A-Z_]+=\S* )*((?:{PROGRAM}|python3? -m \S+)(?: .*)?)$")
_REST = re.compile(r" +(?:\||>|#|&|2>).*$")


def command_lines(text):
    """Return the exporter's command lines of a page, without prompts, redirections, pipes and comments."""
    blocks = [block for language, block in _FENCED.findall(text) if language in _SHELLS]
    blocks += _INDENTED.findall(_FENCED.sub("", text))
    lines = (line for block in blocks for line in re.sub(r"\\\n\s*", "", block).splitlines())
    matches = (_COMMAND.search(_REST.sub("", line.strip().removeprefix("$ "))) for line in lines)
    return [match[1] for match in matches if match]


COMMANDS = {line: path.name for path in PAGES for line in command_lines(path.read_text(encoding="utf-8"))}


def test_most_pages_have_commands():
    assert len(COMMANDS) > 30
    assert len({*COMMANDS.values()}) > 5


@every(COMMANDS, lambda line: f"{COMMANDS[line]}: {line}")
def test_every_documented_command_is_valid(line):
    if line.startswith("python"):
        assert importlib.util.find_spec(line.split()[2]) is not None
    else:
        assert wrong_command(line) is None
