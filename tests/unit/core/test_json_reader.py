"""JSON, read value by value."""

from __future__ import annotations

import json
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.core import json_reader
from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.core.json_reader import JsonError, JsonReader, Picker, TooLongError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text(max_size=30),
    lambda below: st.lists(below, max_size=5) | st.dictionaries(st.text(max_size=5), below, max_size=5),
    max_leaves=20,
)


SHAPE: Final = {"a": None, "b": ({"c": None},), "d": {"e": None}}


def document(text):
    """Read a text to its end."""
    reader = JsonReader(text)
    found = whole(reader)
    reader.end()
    return found


def whole(reader: JsonReader):
    """Read a value by entering whatever can be entered."""
    match reader.kind():
        case "[":
            return [whole(reader) for _ in reader.elements()]
        case "{":
            return {key: whole(reader) for key in reader.members()}
        case _:
            return reader.value()


@pytest.mark.parametrize("encode", [str.encode, str])
@given(value=VALUES, most=st.integers(45, 400), indent=st.none() | st.integers(0, 3), escaped=st.booleans())
def test_any_document_is_read_like_json_with_a_window_of_any_size(encode, value, most, indent, escaped):
    text = json.dumps(value, indent=indent, ensure_ascii=escaped)
    try:
        encoded = encode(text)
    except UnicodeEncodeError:
        return
    # A text of 30 characters may be written with 12 for each.
    reader = JsonReader(encoded, most * 10)
    assert whole(reader) == value
    reader.end()
    assert reader.position == len(text)


# The longest number has 21 characters; the window needs a few more to find its end.
@given(VALUES, st.integers(25, 100))
def test_a_value_of_any_size_is_skipped(value, most):
    text = json.dumps([value, "end"])
    reader = JsonReader(text.encode(), most)
    elements = reader.elements()
    next(elements)
    finish(reader.skip())
    next(elements)
    assert reader.value() == "end"
    assert list(elements) == []


@given(st.text(alphabet='[]{}",:\\ 1e-tn\x00\n', max_size=40), st.integers(1, 40))
def test_any_text_is_read_as_json_reads_it_or_is_an_error(text, most):
    try:
        expected = json.dumps(json.loads(text))
    except ValueError:
        expected = "an error"
    reader = JsonReader(text, most)
    try:
        found = json.dumps(whole(reader))
        reader.end()
    except JsonError as error:
        found = None if isinstance(error, TooLongError) or "twice" in str(error) else "an error"
    assert found in {None, expected}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "is not JSON"),
        ('\n["a",\n5', 3, "is not JSON: Expecting ']'"),
        ("[1 2]", 1, "is not JSON: Expecting ']'"),
        ('{"a" 1}', 1, "is not JSON: Expecting ':'"),
        ('{"a": 1,\n"a": 2}', 2, "has a key twice"),
        ("[] []", 1, "is not JSON: Extra data"),
        ('["\\x"]', 1, "is not JSON: Invalid"),
        ("[" + "9" * 5000 + "]", 1, "has a number with too many digits"),
    ],
)
def test_a_mistake_is_reported_with_its_line(text, line, message):
    with pytest.raises(JsonError, match=message) as caught:
        document(text)
    assert caught.value.line == line


@pytest.mark.parametrize("data", [b"\xff", b'["\xc3"]', b'["\xed\xa0\x80"]', b"[1, \xe2\x82"])
def test_invalid_utf_8_is_an_error(data):
    with pytest.raises(JsonError, match="is not UTF-8"):
        whole(JsonReader(data))


@pytest.mark.parametrize(
    "text", ['"' + "x" * 100 + '"', "[" + "1," * 50 + "1]", "1." + "0" * 100, '{"a":"' + "x" * 99]
)
def test_a_value_longer_than_the_window_is_too_long(text):
    reader = JsonReader(text + " 5", 100)
    with pytest.raises(TooLongError, match="more than 100 characters"):
        reader.value()


def test_an_object_with_too_many_members_is_an_error(monkeypatch):
    monkeypatch.setattr(json_reader, "MAX_MEMBERS", 3)
    text = json.dumps(dict.fromkeys("abc"))
    assert whole(JsonReader(text)) == dict.fromkeys("abc")
    with pytest.raises(JsonError, match="more than 3 members"):
        whole(JsonReader(json.dumps(dict.fromkeys("abcd"))))


class TestPicker:
    def picked(self, value, most=1000, characters=1000):
        reader = JsonReader(json.dumps(value), characters)
        found = finish(Picker(reader, most).pick(SHAPE))
        reader.end()
        return found

    def test_no_more_values_are_kept_than_the_limit(self):
        value = {"b": [{"c": number} for number in range(100)]}
        assert self.picked(value, most=8) == {"b": [{"c": 0}, {"c": 1}, {"c": 2}]}
        assert self.picked(value, most=9) == {"b": [{"c": 0}, {"c": 1}, {"c": 2}]}

    @given(VALUES, st.integers(0, 10))
    def test_any_value_is_read_to_its_end(self, value, most):
        self.picked(value, most)
