"""The command line that prints the commands of ``vllm bench forward``."""

from __future__ import annotations

import pytest

from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.core.user_errors import ExporterError

MTP = ("--target", "m", "--method", "mtp")


def run(*words):
    arguments = parse(["plan", "bench", *words], {})
    return arguments.handle(arguments)


def test_it_prints_a_script_for_the_selected_loads(capsys):
    assert run(*MTP, "--tokens", "3", "--loads", "8, 1,8", "--context", "500") == 0
    printed = capsys.readouterr().out
    assert "--case 'b1=1*4@503:3'" in printed
    assert printed.count("--case 'b8=8*1@500'") == 1
    assert printed.endswith("cost: {bench: bench.json}\n")


def test_by_default_it_measures_one_to_256_requests(capsys):
    run(*MTP)
    printed = capsys.readouterr().out
    assert "'b1=1*1@2048'" in printed
    assert "'b256=256*5@2052:4'" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--target, --method"),
        (("--target", "m", "--method", "medusa"), "invalid choice: 'medusa'"),
        ((*MTP, "--tokens", "0"), "'0' is not a whole number from 1"),
        ((*MTP, "--loads", "1,,2"), "'' is not a whole number from 1"),
        ((*MTP, "--loads", ",".join(map(str, range(1, 40)))), "has 39 numbers; 32 at most"),
        ((*MTP, "--context", "1"), "'1' is not a whole number from 2"),
    ],
)
def test_an_invalid_flag_exits_with_2(words, message, capsys):
    with pytest.raises(SystemExit) as ended:
        run(*words)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_missing_draft_is_an_error_with_a_remedy():
    with pytest.raises(ExporterError, match="needs the draft model: add --draft"):
        run("--target", "m", "--method", "eagle3")
