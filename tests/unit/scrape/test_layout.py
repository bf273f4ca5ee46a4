"""Layouts of metrics pages: a first reading, later readings by a known layout, and unreadable pages.

Any bytes: tests/robustness/fuzz.
"""

from __future__ import annotations

import math
import re
from contextlib import nullcontext

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from spec_decode_exporter.scrape.engines import MEANINGS, PLAIN_NAMES
from spec_decode_exporter.scrape.errors import PageError
from spec_decode_exporter.scrape.layout import Layout, ParsedSeries, lines_of, read_layout, values_at
from tests.paths import DATA

PAGES = DATA / "pages"
CORPUS = sorted((PAGES / "corpus").iterdir())
WHOLE_PAGES = sorted(path for path in PAGES.iterdir() if path.suffix in {".prom", ".om"})
NGRAM = (PAGES / "vllm-0.32.0-python-ngram-k4.prom").read_bytes()
NAMES = frozenset(MEANINGS)
DRAFTS = b"vllm:spec_decode_num_drafts_total"


def drafts(text: bytes) -> bytes:
    """Return a page or line; ``D`` stands for a series that is wanted."""
    return text.replace(b"D", DRAFTS)


def by_layout(layout: Layout, page: bytes) -> list[float] | None:
    """Return the values of a page by the layout of another; None if it needs a first reading."""
    lines = lines_of(page, layout.starts)
    try:
        return None if lines is None else values_at(lines, layout.places.values())
    except PageError:
        return None


def samples(page: bytes, names=NAMES) -> dict[ParsedSeries, float]:
    """Return the values by a first reading."""
    places = read_layout(page, names).places
    return dict(zip(places, values_at(page.split(b"\n"), places.values()), strict=True))


# First readings.


@pytest.mark.parametrize("path", WHOLE_PAGES, ids=lambda path: path.name)
def test_every_page_is_read_like_by_the_parser_of_prometheus_client(path):
    page = path.read_bytes()
    parse = parse_open_metrics if page.endswith(b"# EOF\n") else parse_text
    found = [
        (sample.name.encode(), tuple(sorted(sample.labels.items())), float(sample.value))
        for family in parse(page.decode())
        for sample in family.samples
    ]
    for names in (NAMES, PLAIN_NAMES):
        expected = {ParsedSeries(name, labels): value for name, labels, value in found if name in names}
        assert samples(page, names) == expected


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_the_corpus_is_read_or_rejected_as_its_file_names_state(path):
    is_read = path.name.startswith("read-")
    with nullcontext() if is_read else pytest.raises(PageError):
        samples(path.read_bytes())


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        (rb'D{a="a\tb"} 1', {"a": "a\\tb"}, 1),
        (b'D{a="a\\"} 9 "} 1', {"a": 'a"} 9 '}, 1),
        (b'D{a="# EOF"} 1', {"a": "# EOF"}, 1),
        (b'D{a="a b\tc\x00"} 1', {"a": "a b\tc\x00"}, 1),
        (b'D{_a=""} 1', {"_a": ""}, 1),
        (b'D{"b.c"="d"} 1', {"b.c": "d"}, 1),
        (b'D{b="c",} 1', {"b": "c"}, 1),
        (b' D { b = "c" , d= "e" }\t1 \t123123\r', {"b": "c", "d": "e"}, 1),
        (b"D 1 17.5 #", {}, 1),
        (b'D 1 # {a="b"} 1 17.5', {}, 1),
        (b"D 1 # {a=b}", {}, 1),
        (b'D 1 # {a=\x00"b"} true', {}, 1),
        (b"D 6.491797e+06", {}, 6491797),
        (b"D .5", {}, 0.5),
        (b"D 007", {}, 7),
        (b"D -Inf", {}, -math.inf),
        (b"D 1e999", {}, math.inf),
    ],
)
def test_a_line_is_read_as_prometheus_writes_it(line, labels, value):
    [(series, found)] = samples(drafts(line) + b"\n").items()
    assert (dict(series.labels), found) == (labels, value)


@pytest.mark.parametrize(
    "page",
    [
        b"#\n# Helpless\n# HELP D\n# HELP D a\x00b\n# TYPE #\n# TYPE D untyped\n# UNIT D seconds\nD 1\n# EOF D\n",
        b"\nD 1\n# EOF\n\n",
        b"# EOF\n # EOF\nD 1\n",
        b'other{a="\xff"} 1\nbroken{a="b 1\nlonely\n{"quoted.name",a="b"} 5\n{"D",a="b"} 1\nD\x00 5\nD 1\n',
    ],
    ids=["comments", "empty lines", "an end before a series", "unwanted lines that are unreadable"],
)  # fmt: skip
def test_lines_that_are_not_wanted_are_not_read(page):
    assert samples(drafts(page)) == {ParsedSeries(DRAFTS, ()): 1.0}


@pytest.mark.parametrize(
    ("says", "line"),
    [
        (says, line)
        for says, lines in {
            "has no readable name, labels and value": (
                b"D", b"D ", b'D{b="c"}', b"D{b='c'} 1", b"D{b=c} 1", b"D{b=", b'D{b="', b'D{="c"} 0', b'D{\xff="c"} 0',
                b'D{b=\x00"c"} 1', b'D{b\x00="c"} 1', b'D{b="\x00', b'D{,b="c"} 1', b'D{b="c"d="e"} 1',
                b'D{b="c",,d="e"} 1', b"D{b} 1", b'D{b\\c="d"} 1',
            ),
            "has a value that is not a number": (
                b"D true", b"D 1_2", b"D 0x1p-3", b"D 0 1_2", b"D 0 1\x00", b"D 1 1z", b"D 1 1 1", b"D 1 NaN", b"D 1 -Inf",
            ),
            "is not a metric": (
                b"<html>", b'{"detail":"Not Found"}', b"\x00", b"404 page not found", b'{b="c"} 1', b'{b="c",} 1', b"9",
            ),
            "has a label that is not UTF-8": (b'D{b="\xff"} 1',),
            "has a label twice": (b'D{a="1",a="2"} 2',),
        }.items()
        for line in lines
    ],
)  # fmt: skip
def test_a_page_with_an_unreadable_line_is_rejected(says, line):
    with pytest.raises(PageError, match=f"^line 2 {says}"):
        samples(b"a 1\n" + drafts(line) + b"\n# EOF\n")


@pytest.mark.parametrize(
    ("page", "says"),
    [
        (b"", "the page is empty"),
        (b"<html></html>", "line 1 is not a metric: <html></html>"),
        (b"a 1\n\x00\n", "line 2 is not a metric: ?"),
        (b"a 1\nb 2", "the page is cut off: its last line does not end"),
        (b"D 1\nD{} 1\n", f"two lines are the same series: {DRAFTS.decode()}"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_the_error_of_an_unreadable_page_has_place_and_reason(page, says):
    with pytest.raises(PageError) as caught:
        samples(drafts(page))
    assert str(caught.value).startswith(says)
    assert caught.value.reason == "malformed"
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200


# Reading again by a known layout.


@pytest.mark.parametrize("path", WHOLE_PAGES, ids=lambda path: path.name)
def test_a_later_page_of_the_same_layout_is_read_by_it(path):
    page = path.read_bytes()
    layout, values = read_layout(page, NAMES), list(samples(page).values())
    assert by_layout(layout, page) == values
    later = re.sub(rb"(?m)^([^#\n].*) \S+$", rb"\1 123456.5", page)  # every value differs and is longer
    assert by_layout(layout, later) == [123456.5] * len(values)


@pytest.mark.parametrize(
    "changed",
    {
        "another engine": NGRAM.replace(b'engine="0"', b'engine="1"'),
        "another position": NGRAM.replace(b'position="3"', b'position="4"'),
        "a new unwanted line": NGRAM + b"new_total 1\n",
        "a new wanted line": NGRAM + DRAFTS + b'{engine="1"} 1\n',
        "a line less": NGRAM.split(b"\n", 1)[1],
        "no line's end": NGRAM[:-1],
        "cut in a line": NGRAM[:-10],
        "an empty line": NGRAM + b"\n",
        "a broken value": NGRAM.replace(b"41.0\n", b"4x1.0\n"),
        "another first line": b"<html>\n" + NGRAM.split(b"\n", 1)[1],
        "nothing": b"",
    }.items(),
    ids=lambda change: change[0],
)
def test_a_page_of_another_layout_is_not_read_by_it(changed):
    assert by_layout(read_layout(NGRAM, NAMES), changed[1]) is None


@pytest.mark.parametrize(
    ("page", "later"),
    [
        (b"\nD 1\n", b'D{a="1"} 5\nD 2\n'),
        (b"other\t1\nD 1\n", b'D{a="1"} 5\nD 2\n'),
        (b" \nD 1\n", b' D{a="1"} 5\nD 2\n'),
    ],
)
def test_a_line_without_a_clear_beginning_is_read_again_each_time(page, later):
    page, later = drafts(page), drafts(later)
    layout = read_layout(page, NAMES)
    assert by_layout(layout, page) is by_layout(layout, later) is None
    assert len(samples(later)) == 2
