"""Configuration of observe: from URLs, flags and a file."""

import pytest

from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.cli.observe_config import HTTP_HELP, read_config
from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.core.user_errors import UsageError

TOKEN = "SPEC_DECODE_EXPORTER_AUTHORIZATION_CREDENTIALS"
LOCAL = "http://localhost:8000/metrics"


def configured(*words, **environ):
    arguments = parse(["observe", *words], environ)
    return read_config(arguments, environ)


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ([], [LOCAL]),
        ([":8001"], ["http://localhost:8001/metrics"]),
        (["vllm:8000/own/path"], ["http://vllm:8000/own/path"]),
        (["a:1", "b:1"], ["http://a:1/metrics", "http://b:1/metrics"]),
        (["--target", "a:1", "b:1"], ["http://a:1/metrics", "http://b:1/metrics"]),
    ],
)
def test_a_url_may_be_abbreviated_and_is_as_good_as_a_flag(words, asked):
    assert [target.url for target in configured(*words).targets] == asked


def test_two_models_of_one_router_are_two_targets_named_after_their_models():
    config = configured("r:1/metrics?model=org%2Fa:Q4", "r:1/metrics?model=b", "r:1/metrics")
    assert [target.called for target in config.targets] == ["r:1/org/a:Q4", "r:1/b", "r:1"]
    same = configured("r:1/metrics?model=b", "r:1/own?model=b")
    assert [target.called for target in same.targets] == ["r:1/b/metrics", "r:1/b/own"]


def test_flags_of_speculation_and_cost_and_the_token_apply_to_every_server():
    words = ("a:1", "b:1", "--speculative.method", "eagle3", "--cost.draft-cost-ratio", "0.05")
    config = configured(*words, **{TOKEN: "secret"})
    assert [target.speculative.method for target in config.targets] == ["eagle3", "eagle3"]
    assert {each.authorization.credentials.get_secret_value() for each in config.targets} == {"secret"}
    assert config.cost.draft_cost_ratio == 0.05


def test_variables_set_a_user_and_headers_of_every_server():
    values = {
        "BASIC_AUTH_USERNAME": "reader",
        "BASIC_AUTH_PASSWORD": "secret",
        "HTTP_HEADERS": "X-Scope-OrgID: team-a\n\nX-Other: b:c\n",
    }
    (target,) = configured(
        "https://a", **{f"SPEC_DECODE_EXPORTER_{name}": each for name, each in values.items()}
    ).targets
    assert (target.basic_auth.username, target.basic_auth.password.get_secret_value()) == ("reader", "secret")
    assert {name: each.values for name, each in target.http_headers.items()} == {
        "X-Scope-OrgID": ("team-a",),
        "X-Other": ("b:c",),
    }
    assert all(name in HTTP_HELP for name in values)


def test_a_variable_names_the_authorities(tmp_path):
    path = tmp_path / "ca.pem"
    path.write_text("no certificate")
    with pytest.raises(ConfigError, match=r"tls_config: .*ca\.pem: not a valid certificate"):
        configured("https://a:1", SPEC_DECODE_EXPORTER_TLS_CA_FILE=str(path))


def test_a_header_without_a_value_is_refused_without_its_text():
    with pytest.raises(UsageError, match="write a header as `NAME: VALUE`") as error:
        configured("a:1", SPEC_DECODE_EXPORTER_HTTP_HEADERS="secret")
    assert "secret" not in str(error.value)


def test_the_file_of_a_running_exporter_is_not_read_beside_a_simulated_server():
    """Its container has the variable."""
    environ = {"SPEC_DECODE_EXPORTER_CONFIG_FILE": "/etc/exporter.yml"}
    arguments = parse(["observe", "--simulate", "steady"], environ)
    arguments.simulated = {"url": "http://simulated:1"}
    assert [target.called for target in read_config(arguments, environ).targets] == ["simulated:1"]


def test_the_targets_of_a_file_are_observed_over_the_window_of_the_observation_and_urls_replace_them(
    tmp_path,
):
    file = tmp_path / "exporter.yml"
    file.write_text(
        "windows: [5m]\npoll: {interval: 60s}\ncost: {draft_cost_ratio: 0.1}\n"
        "targets: [{url: http://one:1, name: one}]\n"
    )
    config = configured("--config.file", str(file), "--for", "20s")
    assert [target.called for target in config.targets] == ["one"]
    assert (config.windows, config.poll.interval) == ((20.0,), 1.0)
    config = configured("two:1", "--config.file", str(file))
    assert [target.called for target in config.targets] == ["two:1"]
    assert config.cost.draft_cost_ratio == 0.1


@pytest.mark.parametrize(
    ("seconds", "interval", "histograms"), [("60s", "500ms", 10.0), ("60s", "10s", 10.0), ("5m", "15s", 15.0)]
)
def test_an_observation_has_at_least_six_polls(seconds, interval, histograms):
    config = configured("a:1", "--for", seconds, "--poll.interval", interval)
    assert config.poll.histogram_interval == histograms
