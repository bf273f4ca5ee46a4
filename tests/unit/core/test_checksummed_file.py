from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.core.checksummed_file import ChecksummedFile, UnusableError

SEAL = ChecksummedFile("a format", version=3, noun="a thing")


@pytest.mark.parametrize(("data", "error"), [({"a": {1}}, TypeError), ({"a": float("nan")}, ValueError)])
def test_a_value_without_json_raises(data, error):
    with pytest.raises(error):
        SEAL.written(data)


@given(st.binary())
def test_any_content_is_read_or_rejected(content):
    with suppress(UnusableError):
        SEAL.read(content, 100_000)
