"""Command ``run``: its configuration from flags, variables and a file."""

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.cli.run import read_config
from spec_decode_exporter.config.batch_schedule import MAX_BATCH
from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.config.source import FLAGS
from spec_decode_exporter.core.user_errors import UsageError


def config(*words, environ=None):
    return read_config(parse(["run", *words], environ or {}), environ or {})


def test_the_command_line_overrides_the_environment_and_that_the_local_vllm():
    assert [target.url for target in config().targets] == ["http://localhost:8000/metrics"]
    environ = {
        "SPEC_DECODE_EXPORTER_TARGET": "http://a:1, http://b:2",
        "SPEC_DECODE_EXPORTER_POLL_INTERVAL": "2s",
    }
    assert [target.called for target in config(environ=environ).targets] == ["a:1", "b:2"]
    assert [target.url for target in config("--target", "a:1", "--target", ":2").targets] == [
        "http://a:1/metrics", "http://localhost:2/metrics"
    ]  # fmt: skip
    found = config("--target", "http://b:2", "--poll.interval", "3s", environ=environ)
    assert ([target.called for target in found.targets], found.poll.interval) == (["b:2"], 3.0)


def test_a_path_in_a_flag_is_relative_to_where_the_exporter_was_started(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    file = tmp_path / "sub" / "exporter.yml"
    file.write_text("state:\n  file: other.json\n")
    monkeypatch.chdir(tmp_path)
    variable = {"SPEC_DECODE_EXPORTER_STATE_FILE": "state.json"}
    for words, environ in ((["--state.file", "state.json"], {}), ([], variable)):
        found = config("--config.file", str(file), *words, environ=environ)
        assert found.state.file == tmp_path / "state.json"


@pytest.mark.parametrize(
    ("variable", "value", "path"),
    [
        ("POLL_INTERVAL", "often", r"poll\.interval"),
        ("TARGET", "http://a, ftp://b", r"targets\[1\]\.url"),
        ("SPECULATIVE_METHOD", "x" * 300, r"targets\[0\]\.speculative\.method"),
    ],
)
def test_a_mistake_in_a_variable_is_one_of_its_flag(variable, value, path):
    with pytest.raises(ConfigError, match=f"^{FLAGS}: {path} "):
        config(environ={f"SPEC_DECODE_EXPORTER_{variable}": value})


@pytest.mark.parametrize(("variable", "value"), [("WEB_LISTEN_ADDRESS", ":1, 7851"), ("SIMULATE", "dorp")])
def test_a_value_in_a_variable_is_read_as_that_of_its_flag(variable, value):
    with pytest.raises(UsageError, match=f"^SPEC_DECODE_EXPORTER_{variable}: '(7851|dorp)' is n"):
        config(environ={f"SPEC_DECODE_EXPORTER_{variable}": value})


def test_a_variable_of_targets_beside_a_file_is_rejected(tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text("{}\n")
    with pytest.raises(UsageError, match=r"^--target, or its variable, is for use without --config\.file"):
        config("--config.file", str(file), environ={"SPEC_DECODE_EXPORTER_TARGET": "http://a"})


EAGLE = (
    '{"method": "eagle3", "model": "draft", "num_speculative_tokens": 3, "rejection_sample_method": "fly", '
    '"num_speculative_tokens_per_batch_size": [[1, 7, 3], [8, 64, 0]], "enable_adaptive_verification": true}'
)
VARIABLE = "SPEC_DECODE_EXPORTER_SPECULATIVE_CONFIG"


@pytest.mark.parametrize(
    ("words", "environ"),
    [(["--speculative.config", EAGLE], {}), ([], {VARIABLE: EAGLE})],
    ids=["flag", "variable"],
)
def test_vllms_own_argument_describes_the_targets_and_flags_override_it(words, environ):
    (target,) = config(*words, environ=environ).targets
    assert target.url == "http://localhost:8000/metrics"
    its = target.speculative
    assert (its.method, its.tokens, its.draft_model, its.rejection_method) == ("eagle3", 3, "draft", "fly")
    assert its.schedule == ((1, 7, 3), (8, MAX_BATCH, 0))
    assert its.adaptive
    (target,) = config(*words, "--speculative.method", "mtp", environ=environ).targets
    assert (target.speculative.method, target.speculative.tokens) == ("mtp", 3)


def test_an_unreadable_argument_of_vllm_is_ignored_as_a_variable():
    with capture_logs() as log:
        found = config(environ={VARIABLE: "$(NOT_KNOWN)"})
    assert found.targets[0].speculative is None
    assert [entry["variable"] for entry in log] == [VARIABLE]


def test_beside_a_file_vllms_argument_applies_to_keys_that_targets_do_not_set(tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text("targets:\n  - url: http://a:1\n  - {url: 'http://b:1', speculative: {method: mtp}}\n")
    words = "--config.file", str(file)
    found = [each.speculative for each in config(*words, environ={VARIABLE: EAGLE}).targets]
    assert [(its.method, its.tokens) for its in found] == [("eagle3", 3), ("mtp", 3)]
    found = [each.speculative.method for each in config(*words, "--speculative.method", "medusa").targets]
    assert found == ["medusa", "mtp"]
    assert config(*words).targets[0].speculative is None
