from __future__ import annotations

import subprocess
import sys

import pytest

from spec_decode_exporter.cli.flags import UsageError
from spec_decode_exporter.cli.main import build_parser, parse


def run(*words):
    return subprocess.run(
        [sys.executable, "-m", "spec_decode_exporter.cli.main", *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_without_a_command_it_runs():
    arguments = parse(["--target", "http://a:1/metrics"], {})
    assert arguments.target == ["http://a:1/metrics"]


@pytest.mark.parametrize(
    ("flag", "variable"),
    [
        ("--web.listen-address", "WEB_LISTEN_ADDRESS"),
        ("--web.telemetry-path", "WEB_TELEMETRY_PATH"),
        ("--web.allowed-hosts", "WEB_ALLOWED_HOSTS"),
        ("--config.file", "CONFIG_FILE"),
        ("--log.level", "LOG_LEVEL"),
        ("--log.format", "LOG_FORMAT"),
        ("--log.summary-interval", "LOG_SUMMARY_INTERVAL"),
    ],
)
def test_every_flag_has_an_environment_variable(flag, variable):
    by_flag = parse(["run", flag, "/x"], {})
    by_variable = parse(["run"], {f"SPEC_DECODE_EXPORTER_{variable}": "/x"})
    assert vars(by_flag) == vars(by_variable)


@pytest.mark.parametrize(("text", "on"), [("true", True), ("1", True), ("false", False), ("", False)])
def test_a_switch_is_set_by_its_environment_variable(text, on):
    arguments = parse([], {"SPEC_DECODE_EXPORTER_WEB_ENABLE_LIFECYCLE": text})
    assert arguments.web_enable_lifecycle is on


def test_the_help_names_every_flag():
    text = build_parser({}).format_help() + parse(["run"], {}).__repr__()
    assert "check-config" in text
    assert "SPEC_DECODE_EXPORTER_WEB_LISTEN_ADDRESS" in text


def test_the_version_is_printed_without_a_command():
    found = run("--version")
    assert found.returncode == 0
    assert found.stdout.startswith("spec-decode-exporter ")


def test_a_command_is_described_in_a_sentence_that_keeps_the_names_in_it():
    assert "Print the file with which vLLM reports its requests." in run("middleware", "--help").stdout


def test_run_does_not_import_the_simulator():
    code = (
        "import sys, spec_decode_exporter.cli.main as cli; cli.parse(['run'], {});"
        "print('spec_decode_exporter.simulator.simulated_server' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert found.stdout == "False\n"


def test_an_unknown_command_is_reported_with_the_known_ones():
    with pytest.raises(UsageError, match=r"bogus.*run, check-config, .*observe"):
        parse(["bogus"], {})
