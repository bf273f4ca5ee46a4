from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.core.checksummed_file import ChecksummedFile, UnusableError

SEAL = ChecksummedFile("a format", version=3, noun="a thing")
DATA = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda below: st.lists(below) | st.dictionaries(st.text(), below),
    ),
)  # fmt: skip


@given(DATA, st.none() | st.integers(0, 4))
def test_written_data_is_read_again(data, indent):
    assert SEAL.read(SEAL.written(data, indent), 10**6) == data


def test_a_file_contains_its_format():
    document = json.loads(SEAL.written({"a": 1}, indent=2))
    assert (document["format"], document["version"], document["data"]) == ("a format", 3, {"a": 1})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"[]", "it is not a thing of this exporter"),
        (ChecksummedFile("another", 3, "").written({}), "it is not a thing of this exporter"),
        (ChecksummedFile("a format", 4, "").written({}), "it has version 4; this exporter reads 3"),
        (
            json.dumps({"format": "a format", "version": "x" * 10**6}).encode(),
            f"it has version '{'x' * 39}; this exporter reads 3",
        ),
        (SEAL.written({"a": 1}).replace(b'"a":1', b'"a":2'), "it was changed or damaged: its checksum does not match"),
        (SEAL.written({"a": 1})[:-4], "it is not JSON"),
    ],
)  # fmt: skip
def test_another_file_is_rejected_with_a_reason(content, reason):
    with pytest.raises(UnusableError) as caught:
        SEAL.read(content, 100_000)
    assert str(caught.value) == reason


@pytest.mark.parametrize(("data", "error"), [({"a": {1}}, TypeError), ({"a": float("nan")}, ValueError)])
def test_a_value_without_json_raises(data, error):
    with pytest.raises(error):
        SEAL.written(data)


@given(st.binary())
def test_any_content_is_read_or_rejected(content):
    with suppress(UnusableError):
        SEAL.read(content, 100_000)
