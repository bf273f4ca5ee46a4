from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run(*words, stdout=subprocess.PIPE):
    return subprocess.run(
        [sys.executable, "-m", "spec_decode_exporter.cli.main", *words],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=30,
        check=False,
    )


def test_check_config_prints_that_a_file_is_valid(tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text("targets:\n  - url: http://a:1\n")
    found = run("check-config", str(file))
    assert (found.returncode, found.stderr) == (0, "")
    assert "1 targets" not in found.stdout
    assert found.stdout == f"{file}: valid, 1 target\n"


def test_a_full_disk_is_an_error_and_not_a_traceback(tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text("targets:\n  - url: http://a:1\n")
    with Path("/dev/full").open("w") as full:
        found = run("check-config", str(file), stdout=full)
    reason = "standard output cannot be written: No space left on device"
    assert (found.returncode, found.stderr) == (1, f"spec-decode-exporter: {reason}\n")


def test_check_config_warns_of_an_unknown_method_and_succeeds(tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text("targets:\n  - {url: http://a:1, speculative: {method: ngarm}}\n")
    found = run("check-config", str(file))
    assert (found.returncode, found.stdout) == (0, f"{file}: valid, 1 target\n")
    assert found.stderr.startswith(f"{file}: warning: targets[0].speculative.method: 'ngarm' is no")
    assert found.stderr.endswith("did you mean ngram?\n")


def test_check_config_lists_every_mistake_and_fails(tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text("poll:\n  intervall: 1s\nwindows: [10s]\ntargets:\n  - url: ftp://a\n")
    found = run("check-config", str(file))
    assert found.returncode == 1
    assert "Traceback" not in found.stderr
    assert f"{file}:2: poll.intervall" in found.stderr
    assert f"{file}:5: targets[0].url" in found.stderr


def test_a_web_configuration_is_checked_by_its_own_schema(tmp_path):
    file = tmp_path / "web.yml"
    file.write_text("rate_limit: {interval: 1s, burst: 5}\n")
    assert run("check-config", "--web", str(file)).returncode == 0
    file.write_text("rate_limit: {burst: -1}\n")
    found = run("check-config", "--web", str(file))
    assert found.returncode == 1
    assert f"{file}:1: rate_limit.burst must be at least 0" in found.stderr
