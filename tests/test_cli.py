from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from exporter.cli import UsageError, _watched, build_parser, parse, read_config, run_loop
from exporter.config.load import ConfigError


def config(*words, environ=None):
    return read_config(parse(["run", *words], environ or {}), environ or {})


def test_without_a_command_it_runs():
    arguments = parse(["--target", "http://a:1/metrics"], {})
    assert arguments.target == ["http://a:1/metrics"]


def test_with_nothing_at_all_it_watches_the_vllm_beside_it():
    assert [target.url for target in config().targets] == ["http://localhost:8000/metrics"]


def test_targets_on_the_command_line_are_the_only_ones():
    targets = config("--target", "http://a:1/metrics", "--target", "http://b:2").targets
    assert [target.url for target in targets] == ["http://a:1/metrics", "http://b:2/metrics"]


def test_targets_come_from_the_environment_with_commas_between_them():
    environ = {"SPEC_DECODE_EXPORTER_TARGET": "http://a:1, http://b:2"}
    assert len(config(environ=environ).targets) == 2


def test_the_command_line_goes_before_the_environment():
    environ = {"SPEC_DECODE_EXPORTER_TARGET": "http://a:1", "SPEC_DECODE_EXPORTER_POLL_INTERVAL": "2s"}
    found = config("--target", "http://b:2", "--poll.interval", "3s", environ=environ)
    assert [target.called for target in found.targets] == ["b:2"]
    assert found.poll.interval == 3.0


def test_flags_go_before_the_file(tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text("poll:\n  interval: 5s\nlog:\n  level: debug\n")
    found = config("--config.file", str(file), "--poll.interval", "2s")
    assert (found.poll.interval, found.log.level) == (2.0, "debug")


def test_a_target_beside_a_file_is_refused_with_the_remedy(tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text("{}\n")
    with pytest.raises(UsageError, match=r"--target is .*; put it into the file"):
        config("--config.file", str(file), "--target", "http://a:1")


def test_a_mistake_in_a_flag_names_the_command_line():
    with pytest.raises(ConfigError, match=r"command line: poll\.interval"):
        config("--poll.interval", "often")


@pytest.mark.parametrize(
    ("flag", "variable"),
    [
        ("--web.listen-address", "WEB_LISTEN_ADDRESS"),
        ("--web.telemetry-path", "WEB_TELEMETRY_PATH"),
        ("--config.file", "CONFIG_FILE"),
        ("--log.level", "LOG_LEVEL"),
        ("--log.format", "LOG_FORMAT"),
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


def test_a_switch_that_the_environment_sets_can_be_taken_back():
    environ = {"SPEC_DECODE_EXPORTER_WEB_ENABLE_LIFECYCLE": "true"}
    assert parse(["--no-web.enable-lifecycle"], environ).web_enable_lifecycle is False


def test_listen_addresses_repeat():
    arguments = parse(["--web.listen-address", ":1", "--web.listen-address", "[::1]:2"], {})
    assert arguments.web_listen_address == [":1", "[::1]:2"]


def test_the_help_names_every_flag():
    text = build_parser({}).format_help() + parse(["run"], {}).__repr__()
    assert "check-config" in text
    assert "SPEC_DECODE_EXPORTER_WEB_LISTEN_ADDRESS" in text


def run(*words):
    return subprocess.run(
        [sys.executable, "-m", "exporter.cli", *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_check_config_says_what_is_good(tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text("targets:\n  - url: http://a:1\n")
    found = run("check-config", str(file))
    assert (found.returncode, found.stderr) == (0, "")
    assert "1 targets" not in found.stdout
    assert found.stdout == f"{file}: good, watches 1 target\n"


def test_check_config_lists_every_mistake_and_fails(tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text("poll:\n  intervall: 1s\nwindows: [10s]\ntargets:\n  - url: ftp://a\n")
    found = run("check-config", str(file))
    assert found.returncode == 1
    assert "Traceback" not in found.stderr
    assert f"{file}:2: poll.intervall" in found.stderr
    assert f"{file}:5: targets[0].url" in found.stderr


def test_a_metric_that_does_not_exist_is_a_mistake_with_a_suggestion(tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text("metrics:\n  disable:\n    - spec_decode_window_draft\n    - rates\n")
    with pytest.raises(
        ConfigError, match=r"exporter.yml:3: metrics.disable\[0\] .*`spec_decode_window_drafts`"
    ):
        config("--config.file", str(file))


def test_the_version_is_said_without_a_command():
    found = run("--version")
    assert found.returncode == 0
    assert found.stdout.startswith("spec-decode-exporter ")


def test_a_simulator_is_not_in_the_memory_of_a_sidecar():
    code = (
        "import sys, exporter.cli as cli; cli.parse(['run'], {});"
        "print('exporter.simulate.server' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert found.stdout == "False\n"


def test_the_program_does_not_run_inside_the_handling_of_a_missing_uvloop(monkeypatch):
    monkeypatch.setattr("exporter.cli.find_spec", lambda name: None)

    async def being_handled():
        return sys.exc_info()[1]

    assert run_loop(being_handled()) is None


def test_a_switch_that_is_neither_true_nor_false_is_refused():
    with pytest.raises(UsageError, match="WEB_ENABLE_LIFECYCLE is 'maybe'"):
        parse([], {"SPEC_DECODE_EXPORTER_WEB_ENABLE_LIFECYCLE": "maybe"})


@pytest.mark.parametrize("other", [["--target", "http://a:1"], ["--config.file", "exporter.yml"]])
def test_a_simulated_server_is_not_watched_beside_real_ones(other):
    with pytest.raises(UsageError, match="--simulate"):
        config("--simulate", "drop", *other)


def test_an_unknown_command_is_named_with_those_that_exist():
    with pytest.raises(UsageError, match=r"bogus.*run, check-config, simulate"):
        parse(["bogus"], {})


def test_a_sidecar_says_all_that_it_needs_by_flags():
    found = config(
        "--speculative.method=eagle3",
        "--speculative.tokens=3",
        "--speculative.draft-model=org/small",
        "--cost.draft-parameters=500M",
        "--cost.target-parameters=8B",
        "--state.file=/state/state.json",
    )
    [target] = found.targets
    assert target.url == "http://localhost:8000/metrics"
    assert target.speculative.model_dump() == {"method": "eagle3", "tokens": 3, "draft_model": "org/small"}
    assert found.cost.ratio == 0.0625
    assert found.state.file == Path("/state/state.json")


def test_how_the_target_speculates_is_said_of_every_target_on_the_command_line():
    found = config("--target=http://a", "--target=http://b", "--speculative.method=mtp")
    assert [target.speculative.method for target in found.targets] == ["mtp", "mtp"]


def test_a_flag_changes_one_key_of_a_section_in_the_file(tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text("cost:\n  draft_cost_ratio: 0.1\n  running_requests: 8\n")
    cost = config("--config.file", str(file), "--cost.draft-cost-ratio", "0.2").cost
    assert (cost.draft_cost_ratio, cost.running_requests) == (0.2, 8.0)


def test_a_path_in_a_flag_is_relative_to_where_the_exporter_was_started(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    file = tmp_path / "sub" / "exporter.yml"
    file.write_text("state:\n  file: other.json\n")
    monkeypatch.chdir(tmp_path)
    found = config("--config.file", str(file), "--state.file", "state.json")
    assert found.state.file == tmp_path / "state.json"
    variable = {"SPEC_DECODE_EXPORTER_STATE_FILE": "state.json"}
    assert config("--config.file", str(file), environ=variable).state.file == tmp_path / "state.json"


@pytest.mark.parametrize(
    ("variable", "value", "path"),
    [
        ("POLL_INTERVAL", "often", r"poll\.interval"),
        ("SPECULATIVE_TOKENS", "many", r"targets\[0\]\.speculative\.tokens"),
        ("COST_TARGET_PARAMETERS", "8B", r"cost\.target_parameters"),
        ("TARGET", "http://a, ftp://b", r"targets\[1\]\.url"),
        ("STATE_FILE", "/", r"state\.file"),
    ],
)
def test_a_mistake_in_a_variable_names_the_variable(variable, value, path):
    name = f"SPEC_DECODE_EXPORTER_{variable}"
    with pytest.raises(ConfigError, match=f"^{name}: {path} "):
        config(environ={name: value})


def test_a_variable_that_holds_nothing_is_as_good_as_none():
    names = ("POLL_INTERVAL", "STATE_FILE", "SPECULATIVE_METHOD", "TARGET", "WEB_TELEMETRY_PATH")
    environ = {f"SPEC_DECODE_EXPORTER_{name}": "" for name in names}
    assert config(environ=environ) == config()
    assert parse(["run"], environ).web_telemetry_path == "/metrics"


def test_what_is_said_of_targets_beside_a_file_is_refused_by_the_name_it_has(tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text("{}\n")
    with pytest.raises(UsageError, match=r"^--speculative\.tokens is for use without --config\.file"):
        config("--config.file", str(file), "--speculative.tokens", "3")
    with pytest.raises(UsageError, match=r"^SPEC_DECODE_EXPORTER_TARGET is for use without --config\.file"):
        config("--config.file", str(file), environ={"SPEC_DECODE_EXPORTER_TARGET": "http://a"})


EAGLE = '{"method": "eagle3", "model": "draft", "num_speculative_tokens": 3}'


def test_vllms_own_argument_says_how_the_targets_speculate():
    for found in (
        config("--speculative.config", EAGLE),
        config(environ={"SPEC_DECODE_EXPORTER_SPECULATIVE_CONFIG": EAGLE}),
    ):
        (target,) = found.targets
        assert target.url == "http://localhost:8000/metrics"
        speculative = target.speculative
        assert (speculative.method, speculative.tokens, speculative.draft_model) == ("eagle3", 3, "draft")


def test_what_a_flag_says_goes_before_vllms_argument():
    (target,) = config("--speculative.config", EAGLE, "--speculative.tokens", "5").targets
    assert (target.speculative.method, target.speculative.tokens) == ("eagle3", 5)


def test_an_argument_of_vllm_that_cannot_be_read_is_refused_as_a_flag_and_passed_over_as_a_variable():
    with pytest.raises(UsageError, match=r"--speculative\.config is not vLLM's JSON"):
        config("--speculative.config", "$(NOT_KNOWN)")
    with capture_logs() as log:
        found = config(environ={"SPEC_DECODE_EXPORTER_SPECULATIVE_CONFIG": "$(NOT_KNOWN)"})
    assert found.targets[0].speculative is None
    assert [entry["variable"] for entry in log] == ["SPEC_DECODE_EXPORTER_SPECULATIVE_CONFIG"]


def test_beside_a_file_vllms_argument_is_for_targets_that_do_not_say_it_themselves(tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text("targets:\n  - url: http://a:1\n  - {url: 'http://b:1', speculative: {method: mtp}}\n")
    environ = {"SPEC_DECODE_EXPORTER_SPECULATIVE_CONFIG": EAGLE}
    silent, telling = config("--config.file", str(file), environ=environ).targets
    assert (silent.speculative.method, silent.speculative.tokens) == ("eagle3", 3)
    assert (telling.speculative.method, telling.speculative.tokens) == ("mtp", 3)
    assert config("--config.file", str(file)).targets[0].speculative is None


def test_a_shard_may_be_given_beside_a_file(tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text("discovery:\n  shard: {count: 2}\n")
    found = config("--config.file", str(file), environ={"SPEC_DECODE_EXPORTER_SHARD_INDEX": "1"})
    assert (found.discovery.shard.index, found.discovery.shard.count) == (1, 2)
    with pytest.raises(ConfigError, match=r"command line: discovery\.shard\.index must be less than"):
        config("--shard.index", "2", "--shard.count", "2")


def test_a_file_is_watched_only_where_there_is_one():
    watching = parse(["--config.auto-reload", "--config.file", "/x"], {})
    assert _watched(watching) == Path("/x")
    assert _watched(parse(["--config.file", "/x"], {})) is None
    with pytest.raises(UsageError, match="there is no file to watch"):
        _watched(parse(["--config.auto-reload"], {}))
