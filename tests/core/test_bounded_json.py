"""JSON whose values are counted before they are decoded."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.core import bounded_json
from spec_decode_exporter.core.bounded_json import TooManyValuesError, check_values, decode

VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda below: st.lists(below, max_size=5) | st.dictionaries(st.text(max_size=3), below, max_size=5),
)


def number_of(value) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(number_of, inside))


@given(VALUES)
def test_the_count_is_an_upper_bound_of_the_values(value):
    content = json.dumps(value).encode()
    assert decode(content, 10**6) == value
    most = number_of(value) - 2
    if most >= 0:
        with pytest.raises(TooManyValuesError, match=f"it has more than {most} values"):
            check_values(content, most)


def test_too_many_values_are_not_decoded(monkeypatch):
    monkeypatch.setattr(bounded_json.json, "loads", None)
    with pytest.raises(TooManyValuesError):
        decode(b"[" + b"{}," * 100 + b"{}]", 100)


@pytest.mark.parametrize("content", [b"", b"[", b"\xff", b"9" * 5000, b"[" * 50_000])
def test_invalid_json_is_an_error(content):
    with pytest.raises(ValueError):
        decode(content, 10**6)
