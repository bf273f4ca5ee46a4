"""Text of the reports, which is Markdown too: escaping, tables, bars, colors, and templates.

Every expression of a template passes through ``printable``, the one place that escapes untrusted text.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from textwrap import fill
from typing import Final, TextIO

from jinja2 import Environment, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from spec_decode_exporter.core.log import escaped
from spec_decode_exporter.views.templating import environment

MIN_WIDTH: Final = 40
MAX_PROSE: Final = 100  # maximum columns of a line of prose on a terminal: longer lines are hard to read
BAR: Final = 20  # columns of the longest bar

_COLORS: Final = {"good": "32", "unsure": "33", "bad": "31"}
_NEUTRAL: Final = "36"
_BLOCKS: Final = "▏▎▍▌▋▊▉█"  # characters of a bar's last cell, ascending; the last one fills the cell
_DELETE: Final = "\x7f"  # the only control character that ``json.dumps`` does not escape
_TICKS: Final = re.compile("`+")
_COLOR: Final = re.compile(r"\x1b\[[\d;]*m")


@dataclass(frozen=True, slots=True)
class TextStyle:
    """Style of the text. The default is that of a file or a pipe."""

    color: bool = False
    width: int | None = None  # columns of the terminal; None: lines are not broken


def text_style(stream: TextIO, environ: Mapping[str, str]) -> TextStyle:
    """Return the style for a stream: colors and width on a terminal only.

    ``NO_COLOR`` (https://no-color.org) and the terminal ``dumb`` have no colors.
    """
    if stream.closed or not stream.isatty():
        return TextStyle()
    color = not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    return TextStyle(color, max(shutil.get_terminal_size().columns, MIN_WIDTH))


def printable(value: object) -> Markup:
    """Return a value as one line: control, direction and line-break characters become escape sequences.

    A ``Markup`` is returned as it is: its parts are escaped already.
    """
    if isinstance(value, Markup):
        return value
    return Markup(escaped(str(value), kept=""))  # noqa: S704  it is no HTML


def name(text: str) -> Markup:
    """Return an untrusted text as a code span: no markup, link or mention in it has an effect."""
    text = printable(str(text))
    fence = "`" * (max(map(len, _TICKS.findall(text)), default=0) + 1)
    space = " " if len(fence) > 1 else ""
    return Markup(f"{fence}{space}{text}{space}{fence}" if text.strip() else "")  # noqa: S704


def badge(word: str, tone: str, style: TextStyle) -> Markup:
    """Return a verdict or a state in bold, on a terminal in the color of its tone.

    ``tone`` is ``good``, ``unsure``, ``bad``, or any other for a neutral one.
    """
    text = f"**{printable(word)}**"
    return Markup(f"\x1b[1;{_COLORS.get(tone, _NEUTRAL)}m{text}\x1b[0m" if style.color else text)  # noqa: S704


def bar(share: float | None, *, guessed: bool = False) -> Markup:
    """Return a share as a bar of at most ``BAR`` columns; a share above 0 is always visible."""
    share, parts = min(max(share or 0.0, 0.0), 1.0), len(_BLOCKS)
    full, rest = divmod(max(round(share * BAR * parts), int(share > 0)), parts)
    drawn = _BLOCKS[-1] * full + (_BLOCKS[rest - 1] if rest else "")
    return Markup("░" * len(drawn) if guessed else drawn)  # noqa: S704


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """Return an aligned table; empty without rows. Columns of numbers are aligned to the right.

    Columns without a value are omitted.
    """
    lines = [[_cell(value) for value in row] for row in (heads, *rows)]
    columns = [column for column in zip(*lines, strict=True) if any(column[1:])]
    right = [_is_numeric(column[1:]) for column in columns]
    widths = [max(3, *map(cells, column)) for column in columns]
    rule = [
        "-" * (size - 1) + (":" if at_right else "-") for size, at_right in zip(widths, right, strict=True)
    ]
    head, *body = zip(*columns, strict=True) if columns else [()]
    drawn = ("| " + " | ".join(map(_padded, row, widths, right)) + " |" for row in (head, rule, *body))
    return Markup("\n".join(drawn) if columns else "")  # noqa: S704


def aligned(caller: Callable[[], str]) -> Markup:
    """Return a table that a template writes row by row, the head first; see ``table``."""
    rows = [
        [cell.strip() for cell in row.split("|")[1:-1]]
        for row in _joined(caller()).splitlines()
        if row.strip()
    ]
    return Markup("%s\n") % table(rows[0], rows[1:])


def cells(text: str) -> int:
    """Return the number of terminal columns of a text, whose characters are of one width."""
    return len(_COLOR.sub("", text))


def render(
    template: str, style: TextStyle, package: str = "spec_decode_exporter.reports", /, **context: object
) -> str:
    """Render a template of a package's folder ``templates``; return lines with a final newline.

    In a template, an indented line continues the line above, and several blank lines are one. On a
    terminal, prose is broken at its width.
    """
    text = _environment(package).get_template(template).render(context, style=style)
    lines = re.sub(r"\s*\n\s*\n", "\n\n", _joined(text)).strip().splitlines()
    return "".join(f"{_fitted(line, style.width)}\n" for line in lines)


def json_text(document: object) -> str:
    """Return a document as indented ASCII JSON with a final newline."""
    return json.dumps(document, indent=2).replace(_DELETE, "\\u007f") + "\n"


def moment(time: float) -> str:
    """Write a Unix time to the minute, in UTC."""
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M}"


def _joined(text: str) -> str:
    """Append each indented line to the line above."""
    return re.sub(r"\n +(?=\S)", " ", text)


def _cell(value: object) -> str:
    return str(printable(value)).replace("|", "\\|")


def _is_numeric(column: Iterable[str]) -> bool:
    """Return whether most cells are numbers, with a unit or without, or dashes."""
    found = [cell.strip("*")[:1] in "-+<>0123456789" for cell in column if cell]
    return 2 * sum(found) > len(found)


def _padded(text: str, width: int, at_right: bool) -> str:  # noqa: FBT001
    space = " " * (width - cells(text))
    return space + text if at_right else text + space


def _fitted(line: str, width: int | None) -> str:
    """Break a line of prose or of a list between words; tables, titles and code stay."""
    if width is None or line.startswith(("|", "#", "    ", "--", "`")):
        return line
    indent = "  " if line.startswith("- ") else ""
    return fill(
        line, min(width, MAX_PROSE), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


@pass_context
def _badge(context: Context, word: str, tone: str) -> Markup:
    return badge(word, tone, context["style"])


@cache
def _environment(package: str) -> Environment:
    templates = environment(package, html=False)
    templates.autoescape = True  # ``printable`` returns ``Markup``, so that nothing is escaped as HTML
    templates.finalize = printable
    templates.globals.update(name=name, table=table, aligned=aligned, badge=_badge, bar=bar)
    return templates
