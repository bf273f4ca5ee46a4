from pathlib import Path

import pytest

from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.config.load import IN_CHART, active_yaml, load
from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.config.schema import DEFAULT_URL, Config
from spec_decode_exporter.config.source import FLAGS, models_in
from tests.paths import CHECKOUT
from tests.unit.config.loading import mistakes, read

EXAMPLES = CHECKOUT / "config"
SECRETS = dict.fromkeys(
    ["CODE_TOKEN", "VLLM_2_PASSWORD", "GATEWAY_KEY", "INVENTORY_TOKEN", "KUBERNETES_TOKEN", "USER_SALT"],
    "hunter2" * 4,
)


def test_without_a_file_the_local_vllm_is_the_target():
    config = load(None, environ={})
    assert config == Config()
    assert [target.url for target in config.targets] == [DEFAULT_URL]


@pytest.mark.parametrize(
    ("is_file", "environ", "place"),
    [(False, {}, "flags"), (True, {}, "file"), (True, {IN_CHART: "true"}, "chart"), (False, {IN_CHART: "true"}, "chart")],
)  # fmt: skip
def test_the_configuration_knows_where_its_settings_are_edited(tmp_path, is_file, environ, place):
    path = tmp_path / "exporter.yml"
    path.write_text("poll: {}\n")
    assert load(path if is_file else None, environ=environ).place == place


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "poll:\n", "targets: []\n", "{}"])
def test_an_empty_file_is_valid(tmp_path, text):
    assert read(tmp_path, text).model_dump() == Config().model_dump()


def sections(model):
    """Yield a section and all below it, but the HTTP keys, which are Prometheus' own."""
    yield model
    for name in model.model_fields.keys() - HttpSettings.model_fields.keys():
        for below in models_in(model.model_fields[name].annotation):
            yield from sections(below)


def test_the_full_example_names_every_key():
    shown = (EXAMPLES / "exporter-full.yml").read_text(encoding="utf-8")
    missing = {name for model in sections(Config) for name in model.model_fields if f"{name}:" not in shown}
    assert not missing, f"add to config/exporter-full.yml: {', '.join(sorted(missing))}"


def test_the_full_example_contains_the_defaults():
    full = load(EXAMPLES / "exporter-full.yml", environ=SECRETS)
    assert full.targets
    assert load(EXAMPLES / "exporter.yml", environ=SECRETS).targets
    plain = Config()
    assert (full.windows, full.poll, full.policy) == (plain.windows, plain.poll, plain.policy)
    assert (full.log.level, full.log.format) == (plain.log.level, plain.log.format)
    assert full.state.interval == plain.state.interval
    assert full.requests.model_copy(update={"users": None}) == plain.requests


def test_a_value_from_the_environment_is_never_repeated(tmp_path):
    text = "poll: {interval: '${A}', max_duty_cycle: '${A}', filter: '${A}'}\ntargets: [{url: '${A}'}]\nlog: '${A}'"
    reported = mistakes(tmp_path, text, A="hunter2")
    assert len(reported) == 5
    assert not [one for one in reported if "hunter2" in one]
    assert any("not the value of ${A}" in one for one in reported)


def test_paths_are_relative_to_the_file_unless_they_are_absolute(tmp_path):
    (tmp_path / "token").write_text("t")
    config = read(
        tmp_path,
        "targets: [{url: http://a, authorization: {credentials_file: token}}]\ndiscovery: {files: [sd/*.yml]}\n"
        "state: {file: /nowhere/state.json}",
    )
    assert config.targets[0].authorization.credentials_file == tmp_path / "token"
    assert config.discovery.files == (tmp_path / "sd/*.yml",)
    assert config.state.file == Path("/nowhere/state.json")


def test_flags_override_the_file(tmp_path):
    overrides = {"poll.interval": "2s", "log.level": "debug", "targets": [{"url": "http://b"}]}
    config = read(
        tmp_path, "poll: {interval: 1s, timeout: 3s}\ntargets: [{url: http://a}]", overrides=overrides
    )
    assert (config.poll.interval, config.poll.timeout, config.log.level) == (2.0, 3.0, "debug")
    assert [target.url for target in config.targets] == ["http://b/metrics"]


def test_a_mistake_of_a_flag_or_its_variable_has_no_line():
    overrides = {
        "poll.interval": "20",
        "targets": [{"url": "http://b"}, {"url": "http://B:80", "speculative": {"tokens": 0}}],
    }
    with pytest.raises(ConfigError) as caught:
        load(None, environ={}, overrides=overrides)
    assert [(one.place, one.path) for one in caught.value.problems] == [
        (FLAGS, "poll.interval"),
        (FLAGS, "targets[1].speculative.tokens"),
    ]


def test_a_flag_overrides_the_file_and_mistakes_of_the_file_keep_their_line(tmp_path):
    overrides = {"cost.draft_cost_ratio": "-1", "log.level": "loud"}
    reported = mistakes(
        tmp_path, "cost:\n  running_requests: 0\n  draft_cost_ratio: 1\n", overrides=overrides
    )
    assert [one.partition(" ")[:1] for one in reported] == [("command",), ("command",), ("2:",)]
    of_section = "1: poll must be a mapping of keys to values, not '5'"
    assert mistakes(tmp_path, "poll: 5\n", overrides={"poll.interval": "2s"}) == [of_section]


def test_a_file_that_cannot_be_read_is_one_mistake(tmp_path):
    for path, reason in (
        (tmp_path, "Is a directory"),
        (tmp_path / "nowhere.yml", "No such file or directory"),
    ):
        with pytest.raises(ConfigError) as caught:
            load(path, environ={})
        assert str(caught.value) == f"{path} cannot be read: {reason}"
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, "poll:\n  interval: 1\n")
    assert str(caught.value).startswith(f"{tmp_path}/exporter.yml:2: poll.interval is not a duration; ")


@pytest.mark.parametrize("name", ["/dev/zero", "\\0", "", "a" * 5000])
def test_a_secret_file_must_be_a_plain_file(tmp_path, name):
    [reported] = mistakes(
        tmp_path, f'targets: [{{url: http://a, authorization: {{credentials_file: "{name}"}}}}]'
    )
    place = "1: targets[0].authorization.credentials_file "
    assert reported.startswith((f"{place}names a file", f"{place}is not the name of a file"))


FILE = """\
windows: [90s, 36h]
targets:
  - url: http://a/metrics?key=${S}
    authorization: {credentials: '${S}'}
    http_headers: {X-A: {values: [open]}}
  - url: http://b
    basic_auth: {username: ann, password: '${S}'}
  - url: http://c
    authorization: {credentials_file: token}
discovery:
  http: [{url: 'http://sd/list?key=${S}', authorization: {credentials: '${S}'}}]
  scrape: {basic_auth: {username: bob, password: '${S}'}}
"""


def test_the_configuration_in_effect_is_shown_without_secrets(tmp_path):
    (tmp_path / "token").write_text("hunter2")
    shown = active_yaml(read(tmp_path, FILE, S="hunter2"))
    assert "hunter2" not in shown
    assert shown.count("<secret>") == 6
    for expected in (
        "- 1m30s\n- 36h\n",
        "username: ann",
        "- open\n",
        f"credentials_file: {tmp_path}/token",
        "4MiB",
    ):
        assert expected in shown


@pytest.mark.parametrize(
    "text",
    [
        "poll: {timeout: 3s}\ntargets: [{url: http://a, labels: {rack: '07'}}]\nmetrics: {disable: [rates]}",
        "cost: {draft_cost_ratio: 0.1}\ntargets: [{url: http://a, cost: {draft_cost_ratio: 0.15, running_requests: 8}}]",
        "reference: {acceptance_ratio: 0.7}\ntargets: [{url: http://a, reference: {acceptance_ratio: 0.8, tokens: 4}}]",
        "policy: {min_drafts: 5}\ntargets: [{url: http://a, policy: {drops: {false_alarm_period: 2d}}}, {url: http://b}]",
        "log: {summary_interval: 10s}",
    ],
    ids=["general", "cost", "reference", "policy", "log"],
)  # fmt: skip
def test_the_redacted_configuration_can_be_loaded_again(tmp_path, text):
    config = read(tmp_path, text)
    shown = active_yaml(config)
    assert read(tmp_path, shown) == config
    assert shown.count("min_drafts: ") == 1  # of a target's policy only the keys that it sets
