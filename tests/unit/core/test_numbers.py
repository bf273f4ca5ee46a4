"""Bounds of numbers from outside."""

import pytest
from pydantic import TypeAdapter, ValidationError

from spec_decode_exporter.core.numbers import (
    MAX_INTEGER,
    MAX_UNIX,
    Seconds,
    TooManyValuesError,
    UnixTime,
    decode,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5", 1.5), ("-0.25e2", -25.0), ("1e100", 1e100), ("1e101", None), ("1e999", None), ("-1e999", None),
        ("NaN", None), ("Infinity", None), ("-Infinity", None), (str(MAX_INTEGER), MAX_INTEGER),
        (str(-MAX_INTEGER), -MAX_INTEGER), (str(MAX_INTEGER + 1), None), ("1" + "0" * 400, None),
        ("-1" + "0" * 400, None), ("9" * 5000, None), ('"1e999"', "1e999"), ("true", True),
    ],
)  # fmt: skip
def test_a_number_beyond_the_bounds_is_absent(text, value):
    assert decode(f'{{"a": [{text}, 7]}}'.encode(), 10) == {"a": [value, 7]}


@pytest.mark.parametrize("content", [b"[1,2,3]", b"[[[]]]", b'{"a": "{,,"}'])
def test_a_document_of_too_many_values_is_refused_before_it_is_decoded(content):
    with pytest.raises(TooManyValuesError, match="it has more than 2 values"):
        decode(content, 2)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"[" * 100_000, "nested too deeply"), (b"{", "Expecting"), (b"\xff", "can't decode")],
    ids=["deep", "cut", "no text"],
)
def test_what_is_no_json_is_refused(content, reason):
    with pytest.raises(ValueError, match=reason):
        decode(content, 1_000_000)


@pytest.mark.parametrize(("type_", "most"), [(UnixTime, MAX_UNIX), (Seconds, 1e10)])
def test_a_persisted_time_is_finite_and_a_date(type_, most):
    adapter = TypeAdapter(type_)
    assert adapter.validate_json(repr(most)) == most
    for text in ("-1", "NaN", "1e999", "1001832969600", "1" + "0" * 400):
        with pytest.raises(ValidationError):
            adapter.validate_json(text)
