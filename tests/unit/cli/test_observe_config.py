from __future__ import annotations

import pytest

from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.cli.observe_config import TOKEN, read_config
from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.core.user_errors import UsageError


def configured(*words, **environ):
    arguments = parse(["observe", *words], environ)
    return read_config(arguments, environ)


def test_without_a_url_the_local_server_is_the_target():
    assert [target.url for target in configured().targets] == ["http://localhost:8000/metrics"]


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("localhost:8000", "http://localhost:8000/metrics"),
        (":8001", "http://localhost:8001/metrics"),
        ("vllm", "http://vllm/metrics"),
        ("[::1]:8000", "http://[::1]:8000/metrics"),
        ("https://vllm/own/path", "https://vllm/own/path"),
        ("vllm:8000/own/path", "http://vllm:8000/own/path"),
    ],
)
def test_a_url_may_be_abbreviated(given, asked):
    assert [target.url for target in configured(given).targets] == [asked]


@pytest.mark.parametrize(
    "words", [("a:1", "b:1"), ("--target", "a:1", "--target", "b:1"), ("--target", "a:1", "b:1")]
)
def test_a_target_is_as_good_as_an_argument(words):
    assert [target.url for target in configured(*words).targets] == [
        "http://a:1/metrics",
        "http://b:1/metrics",
    ]


@pytest.mark.parametrize("given", ["ftp://vllm", "http://", "http://[", "http://user:secret@vllm", "a b"])
def test_an_invalid_url_is_rejected_and_not_repeated(given):
    with pytest.raises(ConfigError, match=r"targets\[0\]") as refused:
        configured(given)
    assert "secret" not in str(refused.value)


def test_flags_of_speculation_and_cost_apply_to_every_server():
    config = configured("a:1", "b:1", "--speculative.method", "eagle3", "--cost.draft-cost-ratio", "0.05")
    assert [target.speculative.method for target in config.targets] == ["eagle3", "eagle3"]
    assert config.cost.draft_cost_ratio == 0.05


def test_a_token_comes_from_the_environment():
    by_variable = configured("a:1", **{TOKEN: "secret"}).targets[0]
    assert by_variable.authorization.credentials.get_secret_value() == "secret"


def test_the_file_of_a_running_exporter_is_not_read_beside_a_simulated_server():
    """Its container has the variable."""
    environ = {"SPEC_DECODE_EXPORTER_CONFIG_FILE": "/etc/exporter.yml"}
    arguments = parse(["observe", "--simulate", "steady"], environ)
    arguments.simulated = {"url": "http://simulated:1"}
    assert [target.called for target in read_config(arguments, environ).targets] == ["simulated:1"]
    arguments = parse(["observe", "--simulate", "steady", "--config.file", "a.yml"], environ)
    with pytest.raises(UsageError, match="use it without URLs and"):
        read_config(arguments, environ)


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text(
        "windows: [5m]\npoll: {interval: 60s}\ncost: {draft_cost_ratio: 0.1}\n"
        "targets: [{url: http://one:1, name: one}]\n"
    )
    return file


def test_the_targets_of_a_file_are_observed_over_the_window_of_the_observation(file):
    config = configured("--config.file", str(file), "--for", "20s")
    assert [target.called for target in config.targets] == ["one"]
    assert config.windows == (20.0,)
    assert config.poll.interval == 1.0


def test_urls_replace_the_targets_of_a_file_and_its_cost_applies(file):
    config = configured("two:1", "--config.file", str(file))
    assert [target.called for target in config.targets] == ["two:1"]
    assert config.cost.draft_cost_ratio == 0.1


def test_a_file_with_discovery_alone_is_rejected(tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text("discovery: {files: [targets.yml]}\n")
    with pytest.raises(UsageError, match="give URLs"):
        configured("--config.file", str(file))


@pytest.mark.parametrize("words", [["--for", "x"], ["--format", "pdf"], ["--bogus"], ["--every", "5"]])
def test_a_wrong_command_line_ends_with_2_which_no_verdict_has(words, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(["observe", *words], {})
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_the_help_explains_every_exit_status(capsys):
    with pytest.raises(SystemExit):
        parse(["observe", "--help"], {})
    text = capsys.readouterr().out
    assert all(f"\n  {status}  " in text for status in range(4))


@pytest.mark.parametrize("interval", ["500ms", "10s"])
def test_an_observation_has_at_least_six_polls(interval):
    config = configured("a:1", "--for", "60s", "--poll.interval", interval)
    assert config.poll.histogram_interval == max(10.0, config.poll.interval)


def test_an_interval_too_long_for_the_observation_is_rejected_by_its_flag():
    with pytest.raises(
        UsageError, match=r"--poll\.interval 15s is too long for --for 1m: .* give 10s at most"
    ):
        configured("a:1", "--for", "60s", "--poll.interval", "15s")
    with pytest.raises(UsageError, match="10s at most"):
        configured("a:1", "--for", "1m", "--poll.interval", "20s")
    config = configured("a:1", "--for", "5m", "--poll.interval", "15s")
    assert (config.poll.histogram_interval, config.windows) == (15.0, (300.0,))


@pytest.mark.parametrize("words", [("--every", "0"), ("--every", "0s"), ("--for", "1ms"), ("--for", "999ms")])
def test_too_short_times_are_rejected(words, capsys):
    with pytest.raises(SystemExit) as refused:
        configured("a:1", *words)
    assert refused.value.code == 2
    assert words[1] in capsys.readouterr().err
