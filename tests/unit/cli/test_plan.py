"""The command line of plans, as a user calls it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.core.user_errors import UsageError

PAIR = ("--target", "70B", "--draft", "8B", "--gpus", "2")


def run(*words):
    arguments = parse(["plan", *words], {})
    return arguments.handle(arguments)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("--gpu-memory", "141GB"), 3),
        (("--gpu-memory", "141GB", "--target.kv-bytes-per-token", "327680", "--draft.kv-bytes-per-token", "131072", "--batch", "100"), 0),
        (("--gpu-memory", "80GB"), 4),
        (("--gpu-memory", "80GB", "--target.dtype", "fp8"), 3),
    ],
)  # fmt: skip
def test_the_exit_status_depends_on_the_outcome(words, status, capsys):
    assert run(*PAIR, *words) == status
    assert capsys.readouterr().out


@pytest.mark.parametrize(("form", "begins"), [("text", "# Speculative"), ("json", "{")])
def test_it_is_written_in_the_selected_format(form, begins, capsys):
    run(*PAIR, "--format", form)
    written = capsys.readouterr().out
    assert written.startswith(begins)
    assert written.endswith("\n")
    assert "\x1b" not in written
    if form == "json":
        assert json.loads(written)["outcome"] == "does_not_fit"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--gpus", "0"), "'0' is not a whole number from 1"),
        (("--gpus", "two"), "'two' is not a whole number"),
        (("--gpu-memory", "80"), "'80' is no amount of memory; write it as 80GB"),
        (("--gpu-memory", "0GB"), "a GPU has more memory than '0GB'"),
        (("--utilisation", "90"), "'90' is not a number above 0, 1 at most"),
        (("--utilisation", "0"), "'0' is not a number above 0, 1 at most"),
        (("--utilisation", "nan"), "'nan' is not a number above 0, 1 at most"),
        (("--acceptance", "1.1"), "'1.1' is not a number of 0 or more, 1 at most"),
        (("--throughput", "inf"), "'inf' is not a number above 0"),
        (("--throughput", "0"), "'0' is not a number above 0"),
        (("--tokens", "9"), "'9' is not a whole number from 1 to 8"),
        (("--target.dtype", "int3"), "'int3' is no dtype that is known; the dtypes are float32, bfloat16"),
        (("--cost.draft-cost-ratio", "-1"), "'-1' is not a number of 0 or more"),
        (("--method", "magic"), "invalid choice: 'magic'"),
        (("--format", "xml"), "invalid choice: 'xml'"),
    ],
)
def test_an_invalid_flag_exits_with_2(words, message, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(["plan", *PAIR, *words], {})
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--target", "70B"), "give a draft model"),
        (("--target", "/nowhere", "--draft", "8B"), "nothing is downloaded"),
        (
            (*PAIR, "--target.tensor-parallel", "4"),
            "--gpus 2 is not a multiple of --target.tensor-parallel 4",
        ),
        ((*PAIR, "--measured", "/nowhere"), "/nowhere cannot be read"),
        ((*PAIR, "--measured", "/nowhere", "--acceptance", "0.7"), "omit --acceptance and --throughput"),
        ((*PAIR, "--measured", "/nowhere", "--throughput", "9"), "omit --acceptance and --throughput"),
    ],
)
def test_contradictory_flags_are_rejected(words, message):
    with pytest.raises(UsageError, match=message):
        run(*words)


def test_the_target_of_a_plan_is_not_that_of_run():
    """The flag of ``run`` has an environment variable."""
    arguments = parse(["plan", *PAIR], {"SPEC_DECODE_EXPORTER_TARGET": "http://a:1"})
    assert arguments.target == "70B"


@pytest.mark.parametrize(("size", "expected"), [("80GB", 80e9), ("80 GB", 80e9), ("143771MiB", 143771 * 2**20), ("79.6GiB", 79.6 * 2**30), ("1TB", 1e12)])  # fmt: skip
def test_memory_is_written_in_the_units_of_vendors(size, expected):
    assert parse(["plan", *PAIR, "--gpu-memory", size], {}).gpu_memory == int(expected)


def test_a_reader_may_close_the_output_early():
    code = "import sys; sys.stdin.read(); from spec_decode_exporter.cli.process import write_stdout; write_stdout('a' * 1_000_000)"
    words = [sys.executable, "-c", code]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as found:
        found.stdout.close()
        found.stdin.close()
        assert found.wait(30) == 0
        assert found.stderr.read() == b""
