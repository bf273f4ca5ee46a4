"""The command line of plans, as a user calls it."""

import pytest

from spec_decode_exporter.cli.main import parse

PLAN = ("plan", "--target", "70B", "--draft", "8B", "--gpus", "2")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("--gpu-memory", "141GB"), 3),
        (("--gpu-memory", "141GB", "--target.kv-bytes-per-token", "327680", "--draft.kv-bytes-per-token", "131072", "--batch", "100"), 0),
        (("--gpu-memory", "80GB"), 4),
        (("--gpu-memory", "80GB", "--target.dtype", "fp8"), 3),
    ],
)  # fmt: skip
def test_the_exit_status_depends_on_the_outcome(program, words, status):
    found, text, _ = program(*PLAN, *words)
    assert found == status
    assert text.startswith("# Speculative")
    assert "\x1b" not in text


def test_the_target_of_a_plan_is_not_that_of_run():
    """The flag of ``run`` has an environment variable."""
    assert parse(PLAN, {"SPEC_DECODE_EXPORTER_TARGET": "http://a:1"}).target == "70B"


@pytest.mark.parametrize(("size", "expected"), [("80GB", 80e9), ("80 GB", 80e9), ("143771MiB", 143771 * 2**20), ("79.6GiB", 79.6 * 2**30), ("1TB", 1e12)])  # fmt: skip
def test_memory_is_written_in_the_units_of_vendors(size, expected):
    assert parse([*PLAN, "--gpu-memory", size], {}).gpu_memory == int(expected)
