"""Parse the bytes of a metrics page into series and values, without I/O.

A page may be large, or crafted to be slow to read. So the parsers are generators that yield at short
intervals, and the caller can run other work on the event loop.

A vLLM page has some 640 lines, of which about 40 are wanted. From one poll to the next only its values
change. So there are two parsers. ``read_page`` finds the wanted lines and the text before each line's value:
the page's layout. ``read_values`` reads another page by that layout: it checks that *every* line still begins
with that text, and then only converts the wanted values. It returns the result of ``read_page``, or None, at
about a fifth of the cost.

Supported are the Prometheus text formats 0.0.4 and 1.0.0 and OpenMetrics 1.0, any order of labels, escapes,
exponents, timestamps and exemplars. A single unreadable wanted line makes the page unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from spec_decode_exporter.core.cooperative_yield import Pausing
from spec_decode_exporter.scrape.errors import PageError

Labels = tuple[tuple[str, str], ...]
"""Label names and values, sorted by name."""

MAX_LINES = 2**18
"""Maximum lines of a page; more would take time from all other targets."""
MAX_SERIES = 20 * 2**10
"""Maximum wanted samples of a page: each takes time and memory.

Some 150 engines of vLLM with histograms reach it; a page of the default size limit shows 110.
"""
MAX_PAGE_LABELS = 2**16
"""Maximum labels of all wanted samples; equal label sets count once."""
MAX_LINE_BYTES = 2**14
"""Maximum bytes of a line with a wanted sample: a name of 1,024 characters, escaped, and 60 labels fit."""
MAX_NUMBER_CHARACTERS = 512
"""Maximum characters of a number: the conversion of 16,000 digits with an exponent takes 0.3 ms."""
MAX_SERIES_LABELS = 64
"""Maximum labels of a wanted sample."""
SLICE = 256
"""Wanted samples between two cooperative yields: a few milliseconds of work."""
_BYTES_SLICE = 2**14
"""Bytes of wanted lines between two cooperative yields, or one longer line."""
_LINES_SLICE = 4096
"""Lines of a new layout between two cooperative yields."""
_KNOWN_LINES_SLICE = 2**15
"""Lines compared with a known layout between two cooperative yields."""
_VALUES_SLICE = 2048
"""Values between two cooperative yields, with their timestamps and exemplars."""

# Possessive quantifiers (`*+`) everywhere: no backtracking, even on long or broken lines.
_QUOTED = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
_LABEL = rf"(?:([a-zA-Z_][a-zA-Z0-9_]*+)|{_QUOTED})[ \t]*+=[ \t]*+{_QUOTED}"
_EACH_LABEL = re.compile(_LABEL)
_SERIES = re.compile(
    rf"[ \t]*+(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*+)[ \t]*+"
    rf"(?:\{{(?P<labels>[ \t]*+(?:{_LABEL}[ \t]*+(?:,[ \t]*+|(?=\}})))*+)\}})?+[ \t]*+".encode()
)
_VALUE = re.compile(
    rb"[ \t]*+([^ \t\r_]++)"  # Python reads 1_000 as a number, the formats do not
    rb"(?:[ \t]++[-+0-9.eE]++)?+"  # a timestamp
    rb"(?:[ \t]++#.*+)?+[ \t\r]*+"  # an exemplar
)
_ESCAPE = re.compile(r'\\([\\"n])')
_UNESCAPED = {"\\": "\\", '"': '"', "n": "\n"}
# A line begins with a name, a space or # or, where a name needs quotes, {"name". JSON begins {"key":.
_FOREIGN_LINE = re.compile(rf"\n(?:[^a-zA-Z_:#{{ \t\r\n]|\{{(?![ \t]*+{_QUOTED}[ \t]*+[,}}]))".encode())
_OPEN_METRICS_END = b"# EOF"


class ParsedSeries(NamedTuple):
    """Identity of one sample on a page."""

    name: bytes
    labels: Labels


@dataclass(frozen=True, slots=True)
class Layout:
    """Positions of the wanted values of a page."""

    starts: Sequence[bytes]
    """Text of every line before its value."""
    places: Sequence[tuple[int, int]]
    """Line and first column of the value of every wanted sample."""
    series: Sequence[ParsedSeries]
    """Wanted samples, in the order of ``places``."""
    open_metrics: bool
    """The page ends with ``# EOF``: it is OpenMetrics."""
    repeatable: bool
    """Another page can be read by this layout. False if a line has no text before its value."""

    def only(self, names: Collection[bytes]) -> Layout:
        """Return the layout restricted to samples named in ``names``; both share the lines' texts."""
        kept = [number for number, series in enumerate(self.series) if series.name in names]
        return replace(
            self,
            places=[self.places[number] for number in kept],
            series=[self.series[number] for number in kept],
        )


def read_page(page: bytes, names: Collection[bytes]) -> Pausing[tuple[Layout, list[float]]]:
    """Find the samples called one of ``names`` on a page; return the layout and, in its order, the values.

    Raises:
        PageError: The page is empty, cut off, too large or no metrics page. Or a wanted line is unreadable,
            or two samples are the same series.
    """
    _check_page(page)
    lines = page.split(b"\n")
    lines.pop()
    starts, wanted, repeatable = yield from _sort_lines(lines, names)
    series, places = yield from _read_each(lines, wanted)
    for number, column in places:
        starts[number] = lines[number][:column]
    if len(places) > SLICE:
        yield
    values = yield from _read_each_value(lines, places)
    is_open_metrics = lines[-1].rstrip() == _OPEN_METRICS_END
    return Layout(starts, places, series, is_open_metrics, repeatable), values


def read_values(layout: Layout, page: bytes) -> Pausing[list[float] | None]:
    """Return the wanted values in the layout's order, or None if the page needs ``read_page``."""
    starts = layout.starts
    if not layout.repeatable or page.count(b"\n") != len(starts):
        return None
    lines = page.split(b"\n")
    if lines.pop():
        return None
    for begin in range(0, len(lines), _KNOWN_LINES_SLICE):
        end = begin + _KNOWN_LINES_SLICE
        if not all(map(bytes.startswith, lines[begin:end], starts[begin:end])):
            return None
        if end < len(lines):
            yield
    try:
        return (yield from _read_each_value(lines, layout.places))
    except PageError:
        return None


def _read_each_value(lines: Sequence[bytes], places: Sequence[tuple[int, int]]) -> Pausing[list[float]]:
    values: list[float] = []
    for begin in range(0, len(places), _VALUES_SLICE):
        if begin:
            yield
        _append_values(values, lines, places[begin : begin + _VALUES_SLICE])
    return values


def _append_values(values: list[float], lines: Sequence[bytes], places: Sequence[tuple[int, int]]) -> None:
    """Append the values at some places: a plain number at once, anything else by ``_read_value``."""
    for number, column in places:
        line = lines[number]
        text = line[column:]
        if len(line) <= MAX_NUMBER_CHARACTERS and b"_" not in text:
            try:
                values.append(float(text))
                continue
            except ValueError:
                pass
        values.append(_read_value(line, number, column))


def _check_page(page: bytes) -> None:
    """Reject a page that is not a metrics page, such as a proxy's error page in HTML."""
    if not page:
        raise PageError("the page is empty")
    match = _FOREIGN_LINE.search(b"\n" + page)
    if match:
        number = page.count(b"\n", 0, match.start()) + 1
        line = page[match.start() :].split(b"\n", 1)[0]
        raise PageError(f"line {number} is not a metric: {_shown(line)}")
    if page[-1:] != b"\n":
        raise PageError("the page is cut off: its last line does not end")
    if page.count(b"\n") > MAX_LINES:
        raise PageError(f"the page has more than {MAX_LINES} lines")


def _sort_lines(
    lines: Sequence[bytes], names: Collection[bytes]
) -> Pausing[tuple[list[bytes], list[int], bool]]:
    """Return the text of all lines before their values, and the numbers of the wanted lines.

    The last value is True if every other line has text before its value. Unwanted lines are processed only
    here and in ``read_values``.
    """
    starts: list[bytes] = []
    wanted: list[int] = []
    repeatable = True
    for number, line in enumerate(lines):
        # At the top of the loop: a page may consist of comments.
        if number % _LINES_SLICE == _LINES_SLICE - 1:
            yield
        if line[:1] == b"#":
            starts.append(line)
            continue
        start = line[: line.rfind(b" ") + 1]
        starts.append(start)
        words = line.partition(b"{")[0].split(None, 1)
        if words and words[0] in names:
            wanted.append(number)
        elif not start.strip():
            repeatable = False
    if len(wanted) > MAX_SERIES:
        raise PageError(f"the page has {len(wanted)} samples of interest; at most {MAX_SERIES} are read")
    return starts, wanted, repeatable


def _read_each(
    lines: Sequence[bytes], wanted: Sequence[int]
) -> Pausing[tuple[list[ParsedSeries], list[tuple[int, int]]]]:
    """Return the series on the wanted lines, and the places of their values."""
    series: dict[ParsedSeries, tuple[int, int]] = {}
    known = _KnownLabels()
    size = 0
    for number in wanted:
        line = lines[number]
        parsed, column = _read_series(line, number, known)
        if parsed in series:
            raise PageError(f"two lines are the same series: {_shown(parsed.name)}")
        series[parsed] = number, column
        size += len(line)
        if len(series) % SLICE == 0 or size >= _BYTES_SLICE:
            size = 0
            yield
    return list(series), list(series.values())


class _KnownLabels:
    """Cache of parsed labels by their text: many lines have the labels of the same engine."""

    def __init__(self) -> None:
        self._known: dict[bytes | None, Labels] = {}
        self._number = 0

    def read(self, text: bytes | None, number: int) -> Labels:
        """Return the labels in ``text``, from line ``number``."""
        labels = self._known.get(text)
        if labels is None:
            labels = self._known[text] = _read_labels(text or b"", number)
            if len(labels) > MAX_SERIES_LABELS:
                raise PageError(f"line {number + 1} has more than {MAX_SERIES_LABELS} labels")
            self._number += len(labels)
            if self._number > MAX_PAGE_LABELS:
                raise PageError(f"the samples of interest have more than {MAX_PAGE_LABELS} labels")
        return labels


def _read_series(line: bytes, number: int, known: _KnownLabels) -> tuple[ParsedSeries, int]:
    """Return a line's series and the column of its value."""
    if len(line) > MAX_LINE_BYTES:
        raise PageError(f"line {number + 1} has more than {MAX_LINE_BYTES} bytes: {_shown(line)}")
    match = _SERIES.match(line)
    if match is None or match.end() in (len(line), match.end("name")):
        raise PageError(f"line {number + 1} has no readable name, labels and value: {_shown(line)}")
    name, text = match.group("name", "labels")
    return ParsedSeries(name, known.read(text, number)), match.end()


def _read_labels(text: bytes, number: int) -> Labels:
    try:
        pairs = _EACH_LABEL.findall(text.decode())
    except UnicodeDecodeError:
        raise PageError(f"line {number + 1} has a label that is not UTF-8: {_shown(text)}") from None
    labels = {bare or quoted: value for bare, quoted, value in pairs}
    if b"\\" in text:
        labels = {_unescaped(name): _unescaped(value) for name, value in labels.items()}
    if len(labels) != len(pairs):
        raise PageError(f"line {number + 1} has a label twice: {_shown(text)}")
    return tuple(sorted(labels.items()))


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: _UNESCAPED[match[1]], text)


def _read_value(line: bytes, number: int, column: int) -> float:
    if len(line) > MAX_LINE_BYTES:
        raise PageError(f"line {number + 1} has more than {MAX_LINE_BYTES} bytes: {_shown(line)}")
    try:
        return _number(line[column:])
    except ValueError:
        shown = _shown(line[column:])
        raise PageError(f"line {number + 1} has a value that is not a number: {shown}") from None


def _number(text: bytes) -> float:
    """Parse the value after a series; ignore a timestamp and an exemplar."""
    try:
        if b"_" not in text and len(text) <= MAX_NUMBER_CHARACTERS:
            return float(text)
    except ValueError:
        pass
    match = _VALUE.fullmatch(text)
    if match is None or len(match[1]) > MAX_NUMBER_CHARACTERS:
        raise ValueError
    return float(match[1])


def _shown(text: bytes, max_characters: int = 60) -> str:
    """Return untrusted bytes for a log line: one line, printable, short."""
    shown = text[:max_characters].decode("ascii", "backslashreplace")
    return "".join(char if char.isprintable() else "?" for char in shown) + (
        "…" if len(text) > max_characters else ""
    )
