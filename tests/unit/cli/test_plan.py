"""The command line of plans, as a user calls it."""

import json

import pytest

from spec_decode_exporter.cli.main import parse

PLAN = ("plan", "--target", "70B", "--draft", "8B", "--gpus", "2")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("--gpu-memory", "141GB"), 3),
        (("--gpu", "H100"), 4),
        (("--gpu", "H100", "--target.dtype", "fp8"), 3),
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


def test_a_gpu_is_given_by_its_name_or_its_memory():
    assert parse([*PLAN, "--gpu", "h200"], {}).gpu.memory_bytes == 143771 * 2**20
    assert parse([*PLAN, "--gpu-memory", "141GB"], {}).gpu.memory_bytes == 141 * 10**9


# By name

AWQ = ("plan", "--model-name", "Qwen/Qwen3-32B-AWQ", "--method", "eagle3", "--tokens", "3", "--running", "8", "--acceptance-length", "2.4")  # fmt: skip


def test_the_json_of_a_plan_by_name_has_the_documented_fields(program):
    status, text, _ = program(*AWQ, "--context", "4000", "--format", "json")
    found = json.loads(text)
    assert status == 0
    assert found["speedup_ratio_lower"] < found["speedup_ratio"] < found["speedup_ratio_upper"]
    assert found["cost_source"] == "typical"
    assert found["verdict_text"] in " ".join(program(*AWQ, "--context", "4000")[1].split())
    assert 0 <= found["pays_share_ratio"] <= 1
    assert found["acceptance_length_tokens"] == pytest.approx(2.4)
