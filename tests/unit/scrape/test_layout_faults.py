"""Faults from the tests of Prometheus' own parsers, and their outcomes in this parser.

After ``model/textparse/promparse_test.go`` and ``openmetricsparse_test.go``. Each case that differs from
Prometheus has a reason.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from spec_decode_exporter.scrape.errors import PageError
from spec_decode_exporter.scrape.layout import read_layout, values_at

WANTED = b"vllm:spec_decode_num_drafts_total"

REASONS = {
    "end": "A last line that does not end may have been cut off in the middle of its number, so the page is refused.",
    "comment": "Comments, TYPE, HELP and UNIT are not read: what a series is, we know by its name.",
    "exemplar": "What follows a `#` after a value is not read: exemplars are not used.",
    "format": "Both formats are read as one, with the blanks, the empty lines and the missing `# EOF` of the older one.",
    "unwanted": "Lines of series that are not wanted are not read further than their name; a name in quotes is never wanted.",
    "blank": "A blank of either kind separates, and one at a line's end or a carriage return is passed over.",
}
"""Why something is read here that Prometheus refuses, or the other way round."""

NO_SERIES = "has no readable name, labels and value"
NO_NUMBER = "has a value that is not a number"
NO_METRIC = "is not a metric"
NO_UTF_8 = "has a label that is not UTF-8"
CUT_OFF = "the page is cut off"


class Case(NamedTuple):
    kind: str
    page: bytes
    """``D`` stands for a series that is wanted."""
    ours: float | str | None
    """Its value; the refusal; or None: the page is read, and the series is not on it."""
    theirs: bool
    """Whether Prometheus reads the page, by its parser for the format of the table."""
    reason: str = ""


TEXT = (
    Case("a plain series", b"D 1\n", 1, True),
    Case("a comma after the last label", b'D{b="c",} 1\n', 1, True),
    Case("blanks everywhere", b'D { b = "c" , d= "e" }\t1\n', 1, True),
    Case("a timestamp after several blanks", b"D 1  \t123123\n", 1, True),
    Case("a label that begins with an underscore", b'D{_b="c"} 1\n', 1, True),
    Case("an escaped quote in a label", b'D{b="\\"c\\""} 1\n', 1, True),
    Case("a label's name in quotes", b'D{"b.c"="d"} 1\n', 1, True),
    Case("a comment of nothing", b"#\nD 1\n", 1, True),
    Case("a comment that begins like HELP", b"# Helpless\nD 1\n", 1, True),
    Case("HELP without a text", b"# HELP D\n# HELP D \nD 1\n", 1, True),
    Case("a zero byte in HELP", b"# HELP D a\x00b\nD 1\n", 1, True),
    Case("a zero byte in a label", b'D{b="c\x00"} 1\n', 1, True),
    Case("no value", b"D\n", NO_SERIES, False),
    Case("no value but a blank", b"D \n", NO_SERIES, False),
    Case("labels and no value", b'D{b="c"}\n', NO_SERIES, False),
    Case("single quotes", b"D{b='c'} 1\n", NO_SERIES, False),
    Case("no quotes", b"D{b=c} 1\n", NO_SERIES, False),
    Case("an end after the equals sign", b"D{b=\n", NO_SERIES, False),
    Case("an end inside a label", b'D{b="\n', NO_SERIES, False),
    Case("an end inside the page's last label", b'D{b="', CUT_OFF, False),
    Case("a label without a name", b'D{="c"} 0\n', NO_SERIES, False),
    Case("a label's name that is not UTF-8", b'D{\xff="c"} 1\n', NO_SERIES, False),
    Case("a label that is not UTF-8", b'D{b="\xff"} 1\n', NO_UTF_8, False),
    Case("a word for a value", b"D true\n", NO_NUMBER, False),
    Case("an underscore in a value", b"D 1_2\n", NO_NUMBER, False),
    Case("a hexadecimal value", b"D 0x1p-3\n", NO_NUMBER, False),
    Case("an underscore in a timestamp", b"D 0 1_2\n", NO_NUMBER, False),
    Case("labels without a name before them", b'{b="c"} 1\n', NO_METRIC, False),
    Case("a zero byte before a label's quote", b'D{b=\x00"c"} 1\n', NO_SERIES, False),
    Case("a zero byte in a label's name", b'D{b\x00="c"} 1\n', NO_SERIES, False),
    Case("a zero byte in a label that does not end", b'D{b="\x00\n', NO_SERIES, False),
    Case("a zero byte after a timestamp", b"D 0 1\x00\n", NO_NUMBER, False),
    Case("a zero byte after a name", b'D\x00{b="c"} 1\n', None, False, "unwanted"),
    Case("a series of which the name is in quotes", b'{"D",b="c"} 1\n', None, True),
    Case("TYPE of nothing", b"# TYPE #\nD 1\n", 1, False, "comment"),
    Case("HELP of nothing", b"# HELP #\nD 1\n", 1, False, "comment"),
    Case("a carriage return at a line's end", b"D 1\r\n", 1, False, "blank"),
    Case("a page that does not end", b"D 1", CUT_OFF, True, "end"),
)

OPEN_METRICS = (
    Case("an end alone", b"# EOF\n", None, True),
    Case("a series and an exemplar", b'D 1 # {a="b"} 1 17.5\n# EOF\n', 1, True),
    Case("a timestamp with a fraction", b"D 1 17.5\n# EOF\n", 1, True),
    Case("nothing", b"", "the page is empty", False),
    Case("a name alone, cut off", b"D", CUT_OFF, False),
    Case("no value", b"D\n# EOF\n", NO_SERIES, False),
    Case("a line of a digit", b"9\n# EOF\n", NO_METRIC, False),
    Case("a timestamp with a letter", b"D 1 1z\n# EOF\n", NO_NUMBER, False),
    Case("two timestamps", b"D 1 1 1\n# EOF\n", NO_NUMBER, False),
    Case("a timestamp that is not a number", b"D 1 NaN\n# EOF\n", NO_NUMBER, False),
    Case("an infinite timestamp", b"D 1 -Inf\n# EOF\n", NO_NUMBER, False),
    Case("an underscore in a timestamp", b"D 0 1_2\n# EOF\n", NO_NUMBER, False),
    Case("a comma before the first label", b'D{,b="c"} 1\n# EOF\n', NO_SERIES, False),
    Case("no comma between labels", b'D{b="c"d="e"} 1\n# EOF\n', NO_SERIES, False),
    Case("two commas between labels", b'D{b="c",,d="e"} 1\n# EOF\n', NO_SERIES, False),
    Case("a label without a value", b"D{b} 1\n# EOF\n", NO_SERIES, False),
    Case("a backslash in a label's name", b'D{b\\c="d"} 1\n# EOF\n', NO_SERIES, False),
    Case("labels and a comma without a name", b'{b="c",} 1\n# EOF\n', NO_METRIC, False),
    Case("a quote inside quotes", b'{"D","b = "c"}\n# EOF\n', None, False, "unwanted"),
    Case("an end without a line's end", b"D 1\n# EOF", CUT_OFF, True, "end"),
    Case("no end", b"D 1\n", 1, False, "format"),
    Case("a line's end alone", b"\n", None, False, "format"),
    Case("an empty line", b"\nD 1\n# EOF\n", 1, False, "format"),
    Case("an empty line after the end", b"D 1\n# EOF\n\n", 1, False, "format"),
    Case("a series after the end", b"# EOF\nD 1\n", 1, False, "format"),
    Case("an end with something after it", b"D 1\n# EOF D\n", 1, False, "comment"),
    Case("a blank before the end", b"D 1\n # EOF\n", 1, False, "blank"),
    Case("a blank before a series", b" D 1\n# EOF\n", 1, False, "blank"),
    Case("a tab before a value", b"D\t1\n# EOF\n", 1, False, "blank"),
    Case("a tab before a timestamp", b"D 1\t2\n# EOF\n", 1, False, "blank"),
    Case("a blank after a timestamp", b"D 1 2 \n# EOF\n", 1, False, "blank"),
    Case("a comment of nothing", b"#\nD 1\n# EOF\n", 1, False, "comment"),
    Case("an unknown type", b"# TYPE D untyped\nD 1\n# EOF\n", 1, False, "comment"),
    Case("TYPE without a type", b"# TYPE D\nD 1\n# EOF\n", 1, False, "comment"),
    Case("a unit that the name does not end in", b"# UNIT D seconds\nD 1\n# EOF\n", 1, False, "comment"),
    Case("a hash after a timestamp", b"D 1 2 #\n# EOF\n", 1, False, "exemplar"),
    Case("an exemplar without quotes", b"D 1 # {a=b}\n# EOF\n", 1, False, "exemplar"),
    Case("an exemplar without a value", b'D 1 # {a="b"}\n# EOF\n', 1, False, "exemplar"),
    Case("a word for an exemplar's value", b'D 1 # {a="b"} true\n# EOF\n', 1, False, "exemplar"),
    Case("an exemplar's time that is not a number", b'D 1 # {a="b"} 4 NaN\n# EOF\n', 1, False, "exemplar"),
    Case("a zero byte in an exemplar", b'D 1 # {a=\x00"b"} 1\n# EOF\n', 1, False, "exemplar"),
    Case("an exemplar cut off", b'D 1 # {a="b"', CUT_OFF, False),
)
CASES = [
    pytest.param(case, id=f"{name}-{case.kind}")
    for name, table in (("text", TEXT), ("open-metrics", OPEN_METRICS))
    for case in table
]


def read(page):
    return values_at(page.split(b"\n"), read_layout(page, {WANTED}).places.values())


@pytest.mark.parametrize("case", CASES)
def test_each_kind_of_fault_has_its_outcome(case):
    page = case.page.replace(b"D", WANTED)
    if isinstance(case.ours, str):
        with pytest.raises(PageError, match=case.ours):
            read(page)
        return
    assert read(page) == ([] if case.ours is None else [case.ours])


@pytest.mark.parametrize("case", CASES)
def test_a_case_that_differs_from_prometheus_has_a_reason(case):
    read = not isinstance(case.ours, str)
    assert (read != case.theirs) == bool(case.reason)
    assert not case.reason or case.reason in REASONS


def test_every_reason_has_a_case():
    assert {case.values[0].reason for case in CASES} - {""} == set(REASONS)
