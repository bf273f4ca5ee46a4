from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.config.yaml_tree import TreeReader, YamlError, find, parse, read_file


def read(text: str):
    reader = TreeReader()
    root = parse(text.encode())
    return (None if root is None else reader.read(root)), reader.problems


def test_values_keep_their_text():
    value, problems = read("{a: 1.10, b: off, c: 012, d: 12:30, e: '~', f: 2026-11-21, g: [yes, 0x10]}")
    assert value == {
        "a": "1.10",
        "b": "off",
        "c": "012",
        "d": "12:30",
        "e": "~",
        "f": "2026-11-21",
        "g": ["yes", "0x10"],
    }
    assert problems == []


@pytest.mark.parametrize("nothing", ["", "~", "null", "NULL"])
def test_a_key_without_a_value_is_absent(nothing):
    assert read(f"a: {nothing}\nb: c") == ({"b": "c"}, [])


def test_a_repeated_key_is_a_flaw_and_its_first_value_counts():
    value, [problem] = read("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n")
    assert value == {"a": "1", "b": {"c": "1", "d": "2"}}
    assert (problem.line, problem.path) == (5, ("b", "c"))
    assert problem.message == "is there twice, first in line 3; remove one of the two"


def test_anchors_and_merges_work_as_in_prometheus():
    value, problems = read("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {<<: [{x: 9}, *a]}\nd: *a\n")
    assert value == {
        "a": {"x": "1", "y": "2"},
        "b": {"x": "1", "y": "3"},
        "c": {"x": "9", "y": "2"},
        "d": value["a"],
    }
    assert problems == []


def test_an_alias_inside_its_own_anchor_ends():
    assert read("a: &a [*a]\nb: &b {c: *b}") == ({"a": [None], "b": {}}, [])


def test_a_few_lines_of_aliases_do_not_become_a_billion_values():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 40)]
    value, [problem] = read("\n".join(lines))
    assert (problem.line, problem.path) == (4, ("a4", 7))
    assert problem.message == "is repeated by aliases until there are more than 100000 values"
    assert value["a3"] == [value["a2"]] * 10
    assert value["a5"] == [None] * 10


@pytest.mark.parametrize("merge", ["<<: {k%d: 1, k: %d}", "<<: [{k%d: 1}, {k%d: 2, k: %d}]"])
def test_the_first_of_several_merges_counts(merge):
    value, _ = read("\n".join(merge.replace("%d", str(number)) for number in range(100)))
    assert value == {"k": "0"} | {f"k{number}": "1" for number in range(100)}


def test_a_device_without_end_is_not_read_to_its_end():
    with pytest.raises(YamlError, match="is larger than 4 MiB"):
        read_file(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        (b"a: 1\nb: [1\nc: 2\n", 3, "is not YAML"),
        (b"a:\n\tb: 1\n", 2, "indent with spaces, not with tabs"),
        (b"a: 1\n---\nb: 2\n", 2, "there is a second document"),
        (b"a: 1\nb: \xff\n", 2, "is not UTF-8 text"),
        (b"a: 1\nb: \x00\n", 2, "holds the character 0x0"),
        (b"a: *nowhere\n", 1, "nowhere"),
        (b"[" * 5000, 1, "is nested too deeply"),
        (b'"\\U00ffffff"', None, "is not YAML"),
    ],
)
def test_invalid_yaml_is_rejected_at_its_line(data, line, message):
    with pytest.raises(YamlError, match=message) as caught:
        parse(data)
    assert caught.value.line == line


@given(
    st.binary(max_size=200) | st.text(alphabet="ab:-[]{}&*!|>'\"\\#?%@,\t\n 01u", max_size=60).map(str.encode)
)
def test_any_bytes_are_a_tree_or_an_error(data):
    try:
        root = parse(data)
    except YamlError:
        return
    if root is not None:
        TreeReader().read(root)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 1),
        (("a",), 1),
        (("a", "b"), 2),
        (("a", "b", 1), 4),
        (("a", "b", 1, "c"), 4),
        (("a", "b", 1, "d"), 5),
        (("a", "b", 7), 2),
        (("a", "nowhere", "below"), 1),
        (("e", "b"), 2),
    ],
)
def test_a_path_leads_to_its_line_or_to_the_nearest(path, line):
    root = parse(b"a: &a\n  b:\n    - 1\n    - c: 1\n      d: 2\ne:\n  <<: *a\n")
    assert find(root, path)[1] == line


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        *(
            (f"\na: {tagged}", (2, ("a",)), "is not supported; remove it")
            for tagged in ("!!python/object:os.system x", "!secret x", "!!binary aGk=", "!!set {a}")
        ),
        ("? [a, b]\n: c", (1, ()), "has a key that is not a plain text"),
        (r'a: "\ud800"', (1, ("a",)), "holds half of a character; write it in full"),
    ],
)
def test_what_is_no_plain_text_is_a_flaw(text, place, message):
    _, [problem] = read(text)
    assert (problem.line, problem.path) == place
    assert message in problem.message
