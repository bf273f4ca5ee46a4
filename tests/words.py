"""Word list of the project: phrases that plain technical English replaces, and openings that docstrings avoid.

``python -m tests.words`` reads every tracked file; with paths, only those. ``make lint`` runs it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).parents[1]

REPLACEMENTS: Final = {
    r"anew": "again, reset or from scratch",
    r"nobody": "the actor, or the condition",
    r"whoever": "the actor, or the condition",
    r"so many": "N, the limit or `count`",
    r"held against|holds? (?:\w+ )?against": "compared with",
    r"beyond doubt": "statistically significant (95 %)",
    r"strangers?": "untrusted",
    r"heed(?:s|ed)?": "handle",
    r"turn(?:s|ed)? away": "reject",
    r"gives? way|giving way|gave way": "yield to the event loop",
    r"defects? of ours|of ours": "internal error, or the exporter's",
    r"tells? (?:apart|of)|is told|are told|was told|told (?:once|so|of)": "report, log, return or export",
    r"learnt": "learned",
    r"what is usual": "the baseline",
    r"is looked at|are looked at|looks at": "is evaluated, is read",
    r"goes by|go by": "is, depends on, uses",
    r"make(?:s)? up for": "compensate",
    r"meanwhile": "during this time",
    r"valley|teller|keeper|sighting": "the term of design/language.md",
    r"judgements?|judged?|judges": "evaluation, evaluate",
}
"""Phrase, as a regular expression in lower case, to the term or the remedy."""

OPENINGS: Final = re.compile(r"(?:What|Who|Whoever|Whom|Whose|Whether|How|Why|That|Those|Which|Where|When)\b")
"""First words that leave a docstring without a subject or a verb."""

SUFFIXES: Final = frozenset(
    {".css", ".html", ".js", ".json", ".md", ".py", ".sh", ".toml", ".tpl", ".yaml", ".yml"}
)

NAMES: Final = frozenset({"Dockerfile", "Makefile", "run"})

EXCLUDED: Final = (
    "CHANGELOG.md",  # names what was renamed
    "docs/maintainers/decisions/",  # as they were decided
    "tests/words.py",
    "tests/test_words.py",
)

ATTRIBUTES: Final = "exporter/"
"""Prefix of the files whose attributes are documented by the same rule."""

_PHRASES: Final = re.compile(
    r"(?<![\w.-])(?:" + "|".join(f"({each})" for each in REPLACEMENTS) + r")(?![\w-])", re.IGNORECASE
)
_KEY: Final = re.compile(r'"[a-z_]+"')
"""A key of JSON, such as a field of the API or of a state file, which keeps its name."""
_TERMS: Final = tuple(REPLACEMENTS.values())


def violations(name: str, text: str) -> Iterator[str]:
    """Yield every violation in a file as ``name:line: problem``. A quoted word is a key and not a word."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in _PHRASES.finditer(_KEY.sub('""', line)):
            yield f"{name}:{number}: {found[0]!r}: write {_TERMS[(found.lastindex or 1) - 1]}"
    if not name.endswith(".py"):
        return
    yield from _openings(name, text)
    if name.startswith(ATTRIBUTES):
        yield from _attribute_openings(name, text)


def _attribute_openings(name: str, text: str) -> Iterator[str]:
    bodies = (node.body for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Module | ast.ClassDef))
    for body in bodies:
        for before, documentation in pairwise(body):
            match before, documentation:
                case ast.Assign() | ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(words))):
                    yield from _opening(name, documentation.lineno, words)


def _opening(name: str, line: int, docstring: str) -> Iterator[str]:
    if found := OPENINGS.match(docstring):
        yield f"{name}:{line}: a docstring that begins with {found[0]!r}: begin with a verb or a noun"


def _openings(name: str, text: str) -> Iterator[str]:
    documented = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and (docstring := ast.get_docstring(node)):
            line = 1 if isinstance(node, ast.Module) else node.body[0].lineno
            yield from _opening(name, line, docstring)


def tracked() -> list[str]:
    """Return the names of the tracked files that hold words."""
    listed = subprocess.run(["git", "ls-files"], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return [
        name
        for name in listed.stdout.splitlines()
        if (Path(name).suffix in SUFFIXES or Path(name).name in NAMES)
        and not name.startswith(EXCLUDED)
        and (CHECKOUT / name).is_file()
    ]


def main(paths: list[str]) -> int:
    """Print every violation in ``paths``, or in all tracked files; return 1 if there is one."""
    names = [name for name in tracked() if not paths or name.startswith(tuple(paths))]
    found = [
        line for name in names for line in violations(name, (CHECKOUT / name).read_text(encoding="utf-8"))
    ]
    print(*found, sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
