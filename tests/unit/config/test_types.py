import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.config.types import (
    format_duration,
    format_size,
    parse_duration,
    parse_parameters,
    parse_size,
)


def test_durations_are_written_as_by_prometheus():
    texts = "0s 500ms 30s 5m 1m30s 1h30m 36h 1d 8d 1w 1y 1h1m1s1ms"
    assert " ".join(format_duration(parse_duration(text)) for text in texts.split()) == texts


@pytest.mark.parametrize(
    ("parse", "values"),
    [
        (parse_duration, {"0": 0, "500ms": 0.5, "30s": 30, "5m": 300, "1h30m": 5400, "1d": 86400, "1w2d": 777600, "1y": 31536000}),
        (parse_size, {"0": 0, "7B": 7, "1KB": 1024, "1KiB": 1024, "16MB": 2**24, "16MiB": 2**24, "1GiB": 2**30, "2TB": 2**41}),
        (parse_parameters, {"8B": 8e9, "8b": 8e9, "1.5B": 1.5e9, "500M": 5e8, "70k": 7e4, "1T": 1e12, "8000000000": 8e9, "0.3": 0.3, "0": 0.0}),
    ],
)  # fmt: skip
def test_units_are_read_as_they_are_used(parse, values):
    """Durations as Prometheus reads them, sizes as powers of two, parameters as in the names of models."""
    for text, value in values.items():
        assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "example", "texts"),
    [
        (parse_duration, "such as 500ms, 30s", ("", "5", "1.5s", "5 s", "s", "30m1h", "-1s", "1s1s", "٣s", "5S", "1h ", "9" * 20 + "s", "1s\n")),
        (parse_size, "such as 512KiB or 16MiB", ("", "16", "16M", "16mb", "1.5MiB", "16 MiB", "-1B", "MiB", "16iB", "16BB", "1B ")),
        (parse_parameters, r"write it as 500M, 1\.5B", ("", "B", "8 B", "8GB", "-8B", "1e9", "8B\n", "٣B", "1.B", ".5B", "9" * 20, "nan")),
    ],
)  # fmt: skip
def test_another_text_is_rejected_with_an_example(parse, example, texts):
    for text in texts:
        with pytest.raises(ValueError, match=example):
            parse(text)


@given(st.integers(0, 10**12 - 1))
def test_what_is_written_and_read_again_is_the_same(number):
    assert parse_duration(format_duration(number / 1000)) == number / 1000
    assert parse_size(format_size(number)) == number
