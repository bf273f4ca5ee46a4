"""GPUs by name and by memory."""

import re

import pytest

from spec_decode_exporter.plan.gpus import GPUS, gpu_of, memory


@pytest.mark.parametrize(("size", "expected"), [("80GB", 80e9), ("80 GB", 80e9), ("143771MiB", 143771 * 2**20), ("79.6GiB", 79.6 * 2**30), ("1TB", 1e12), ("0", 0)])  # fmt: skip
def test_memory_is_written_in_the_units_of_vendors(size, expected):
    assert memory(size) == int(expected)


@pytest.mark.parametrize("text", ["H100", "h100", " H100 "])
def test_a_gpu_has_the_memory_that_its_driver_shows(text):
    assert gpu_of(text) == ("H100", 81_559 * 2**20)
    assert gpu_of("rtx 4090").name == "RTX-4090"
    assert gpu_of("141GB") == ("", 141 * 10**9)


def test_every_gpu_has_less_memory_than_a_terabyte_and_more_than_a_desktop():
    assert all(16 * 2**10 < size < 2**20 for size in GPUS.values())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("H1000", "unknown GPU 'H1000'; did you mean H100?"),
        ("A1000", "did you mean A100?"),
        ("potato", "known are A10G, L4, "),
        ("80", "'80' is no amount of memory; write it as 80GB"),
        ("0", "a GPU has more memory than '0'"),
        ("1iB", "no amount of memory"),
    ],
)
def test_another_gpu_is_an_error_with_the_nearest_name(text, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        gpu_of(text)
