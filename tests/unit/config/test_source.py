from __future__ import annotations

import pytest

from spec_decode_exporter.config import source as module
from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.config.source import source_of
from spec_decode_exporter.config.types import MAX_FILE_BYTES


def read(text: str):
    """Return the data of a document, and its mistakes as ``line: path message``."""
    source = source_of(text.encode(), "a.yml")
    try:
        source.refuse()
    except ConfigError as error:
        return source.data, [str(problem).removeprefix("a.yml:") for problem in error.problems]
    return source.data, []


def unreadable(data: bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        source_of(data, "a.yml")
    [problem] = caught.value.problems
    return str(problem)


def test_values_keep_their_text():
    text = "{a: 1.10, b: off, c: 012, d: 12:30, e: '~', f: 2026-11-21, g: [yes, 0x10]}"
    expected = {"a": "1.10", "b": "off", "c": "012", "d": "12:30", "e": "~", "f": "2026-11-21"}
    assert read(text) == (expected | {"g": ["yes", "0x10"]}, [])


@pytest.mark.parametrize("nothing", ["", "~", "null", "NULL"])
def test_a_key_without_a_value_is_absent_and_known_as_empty(nothing):
    source = source_of(f"a: {nothing}\nb: {{c: {nothing}}}".encode(), "a.yml")
    assert (source.data, source.empty) == ({"b": {}}, [("b", "c"), ("a",)])


def test_anchors_and_merges_work_as_in_prometheus():
    value, mistakes = read("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {<<: [{x: 9}, *a]}\nd: *a\n")
    one = {"x": "1", "y": "2"}
    assert (value, mistakes) == (
        {"a": one, "b": {"x": "1", "y": "3"}, "c": {"x": "9", "y": "2"}, "d": one},
        [],
    )


@pytest.mark.parametrize("merge", ["<<: {k%d: 1, k: %d}", "<<: [{k%d: 1}, {k%d: 2, k: %d}]"])
def test_the_first_of_several_merges_counts(merge):
    value, _ = read("\n".join(merge.replace("%d", str(number)) for number in range(100)))
    assert value == {"k": "0"} | {f"k{number}": "1" for number in range(100)}


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
        (("e", "f"), 7),
    ],
)
def test_a_mistake_has_the_line_of_its_value_or_of_the_nearest_around_it(path, line):
    source = source_of(b"a: &a\n  b:\n    - 1\n    - c: 1\n      d: 2\ne:\n  f: 1\n  <<: *a\n", "a.yml")
    source.add_problem(path, "x")
    with pytest.raises(ConfigError, match=rf"^a.yml:{line}\b"):
        source.refuse()


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        *(
            (f"\na: {tagged}", "2: a ", "is not supported; remove it")
            for tagged in ("!!python/object:os.system x", "!secret x", "!!binary aGk=", "!!set {a}")
        ),
        ("? [a, b]\n: c", "1 ", "has a key that is not a plain text"),
        (r'a: "\ud800"', "1: a ", "holds half of a character; write it in full"),
    ],
)
def test_what_is_no_plain_text_is_one_mistake(text, place, message):
    _, [mistake] = read(text)
    assert mistake.startswith(place)
    assert message in mistake


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: 1\nb: [1\nc: 2\n", ":3 is not YAML"),
        (b"a:\n\tb: 1\n", ":2 is not YAML: found character '\\t' that cannot start any token; indent with spaces, not with tabs"),
        (b"a: 1\n---\nb: 2\n", ":2 is not YAML: there is a second document; remove it and the `---` before it"),
        (b"a: 1\nb: \xff\n", ":2 is not UTF-8 text; save it as UTF-8"),
        (b"a: 1\nb: \x00\n", ":2 holds the character 0x0; remove it"),
        (b"a: *nowhere\n", ":1 is not YAML: found undefined alias 'nowhere'"),
        (b'"\\U00ffffff"', " is not YAML"),
        (b"[" * 5000, " is nested too deeply"),
        (b"&a {<<: *a}", " is nested too deeply"),
        (b"a: &a [*a]", " is nested too deeply"),
        (b"x" * (MAX_FILE_BYTES + 1), " is larger than 1 MiB"),
        (b"a: {" + b"? , " * 5000 + b"}", ":1 has more than 5000 values"),
        (b"&a [" + b"*a," * 5000 + b"]", ":1 has more than 5000 values"),
    ],
)  # fmt: skip
def test_an_unreadable_document_is_one_mistake_at_its_line(monkeypatch, data, message):
    monkeypatch.setattr(module, "MAX_VALUES", 5000)  # more than any nesting that Python's stack allows
    assert unreadable(data).startswith(f"a.yml{message}")


@pytest.mark.parametrize(
    "text",
    [
        "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
        + "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 40)),
        "a: &a " + "x" * 40_000 + "\nb: [" + "*a, " * 100 + "]",
        "a: &a {? " + "x" * 40_000 + " : 1}\nb: [" + "*a, " * 100 + "]",
    ],
    ids=["a billion values", "a long text", "a long key"],
)
def test_aliases_are_bounded_by_what_they_repeat(monkeypatch, text):
    monkeypatch.setattr(module, "MAX_VALUES", 5000)
    assert "is repeated by aliases until there are more than 5000 values" in unreadable(text.encode())


def test_a_device_without_end_is_not_read_to_its_end():
    with pytest.raises(ConfigError, match="is larger than 1 MiB"):
        module.read_source(module.Path("/dev/zero"))


def test_a_hundred_mistakes_are_listed():
    _, mistakes = read("[" + "!x a," * 150 + "]")
    assert (len(mistakes), mistakes[-1]) == (101, "a.yml has more mistakes")
