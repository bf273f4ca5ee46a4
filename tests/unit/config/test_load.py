from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spec_decode_exporter.config.environment import FromVariable
from spec_decode_exporter.config.http_settings import HttpSettings
from spec_decode_exporter.config.load import active_yaml, load
from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.config.schema import DEFAULT_URL, Config, StateSettings
from spec_decode_exporter.config.source import models_in
from tests.paths import CHECKOUT

EXAMPLES = CHECKOUT / "config"
SECRETS = dict.fromkeys(
    ["CODE_TOKEN", "VLLM_2_PASSWORD", "GATEWAY_KEY", "INVENTORY_TOKEN", "KUBERNETES_TOKEN", "USER_SALT"],
    "hunter2" * 4,
)


def test_without_a_file_the_local_vllm_is_the_target():
    config = load(None, environ={})
    assert config == Config()
    assert [target.url for target in config.targets] == [DEFAULT_URL]


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "poll:\n", "targets: []\n", "{}"])
def test_an_empty_file_is_valid(read, text):
    assert read(text) == Config()


def test_discovery_alone_adds_no_default_target(read):
    assert read("discovery: {files: [/sd/*.yml]}").targets == ()


@pytest.mark.parametrize("name", ["exporter.yml", "exporter-full.yml"])
def test_the_examples_load(name):
    config = load(EXAMPLES / name, environ=SECRETS)
    assert config.targets


def sections(model):
    """Yield a section and all below it, but the HTTP keys, which are Prometheus' own."""
    yield model
    for name in model.model_fields.keys() - HttpSettings.model_fields.keys():
        for below in models_in(model.model_fields[name].annotation):
            yield from sections(below)


def test_the_full_example_names_every_key():
    shown = (EXAMPLES / "exporter-full.yml").read_text(encoding="utf-8")
    missing = [name for model in sections(Config) for name in model.model_fields if f"{name}:" not in shown]
    assert missing == []


def test_the_full_example_contains_the_defaults():
    full = load(EXAMPLES / "exporter-full.yml", environ=SECRETS)
    plain = Config()
    assert (full.windows, full.poll, full.policy) == (plain.windows, plain.poll, plain.policy)
    assert (full.log.level, full.log.format) == (plain.log.level, plain.log.format)
    assert full.state.interval == plain.state.interval
    assert full.requests.model_copy(update={"users": None}) == plain.requests


def test_every_mistake_is_reported_at_once_with_its_line(mistakes):
    assert mistakes(
        """\
        poll:
          intervall: 2s
          timeout: 5
          filter: of
        windows: [5m, 30s, 30s]
        targets:
          - url: localhost:8000
            labels: {job: a, 1x: b}
          - name: a
          - url: ${NOWHERE}
            tls_config: {key_file: nowhere.key}
          - nam: b
            url: http://a
        log:
          level: warn
        log:
          format: json
        extra: 1
        """
    ) == [
        "2: poll.intervall is not a known key here; did you mean `interval`?",
        "3: poll.timeout is not a duration; write a number with its unit, such as 500ms, 30s, 5m or 1h30m",
        "4: poll.filter must be 'auto' or 'off', not 'of'",
        "5: windows holds 30s more than once; remove the repetition",
        "7: targets[0].url is not an address; write it as http://host:port/metrics or https://host:port/metrics",
        "8: targets[0].labels.job is a label that Prometheus sets; choose another name",
        "8: targets[0].labels.1x is not a label name; use letters, digits and underscores, and no digit first",
        "9: targets[1].url is missing",
        "10: targets[2].url the environment variable NOWHERE is not set; set it, or write `$${NOWHERE}` for the text",
        f"11: targets[2].tls_config.key_file names a file that cannot be read: {mistakes.directory}/nowhere.key: No such file or directory",
        "12: targets[3].nam is not a known key here; did you mean `name`?",
        "15: log.level must be 'debug', 'info', 'warning' or 'error', not 'warn'",
        "16: log is there twice, first in line 14; remove one of the two",
        "18: extra is not a known key here; there are `windows`, `poll`, `cost`, `baseline`, `reference`, `policy`, `discovery`, `targets`, `experiments`, `requests`, `metrics`, `state`, `log`, `limits`",
    ]


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("a", "1:  must be a mapping of keys to values, such as `poll:`"),
        ("poll: 1s", "1: poll must be a mapping of keys to values, not '1s'"),
        ("poll: {interval: 0}", "1: poll.interval must be more than 0"),
        ("poll: {timeout: 2y}", "1: poll.timeout is longer than a year"),
        ("poll: {max_body: 16}", "1: poll.max_body is not a size; write a whole number with its unit, such as 512KiB or 16MiB"),
        ("poll: {max_duty_cycle: 2}", "1: poll.max_duty_cycle must be at most 1"),
        ("poll: {max_duty_cycle: much}", "1: poll.max_duty_cycle must be a number, not 'much'"),
        ("poll: {max_duty_cycle: nan}", "1: poll.max_duty_cycle must be at most 1"),
        ("poll: {interval: 11s}", "1: poll.interval is more than a third of the shortest window, 30s; make it at most 10s"),
        ("poll: {interval: 2s}\nwindows: [5s, 1m]", "1: poll.interval is more than a third of the shortest window, 5s; make it at most 1s666ms"),
        ("windows: [2s, 1m]", "1: poll.interval"),
        ("windows: [6s]", "1: poll.histogram_interval is more than a third of the longest window, 6s; make it at most 2s"),
        ("poll:\n  interval: 10s\n  histogram_interval: 5s", "3: poll.histogram_interval is shorter than `interval`, 10s; make it at least that long"),
        ("windows: 30s", "1: windows must be a list, not '30s'; write `- ` before each of its elements"),
        ("windows: []", "1: windows must not be empty"),
        ("discovery: {dns: [{names: []}]}", "1: discovery.dns[0].names must not be empty"),
        ("windows: [1m, 60s]", "1: windows holds 1m more than once; remove the repetition"),
        ("targets: {url: http://a}", "1: targets must be a list, not a mapping; write `- ` before each of its elements"),
        ("targets: [http://a]", "1: targets[0] must be a mapping of keys to values, not 'http://a'"),
        ("targets: [{url: [a]}]", "1: targets[0].url must be a text, not a list"),
        ("targets: [{url: http://a, name: ''}]", "1: targets[0].name must not be empty"),
        ("targets: [{url: http://a, labels: {__a: b}}]", "1: targets[0].labels.__a begins with two underscores, which Prometheus reserves; choose another name"),
        ("targets: [{url: http://a, labels: {window: b}}]", "1: targets[0].labels.window is a label of the exporter's own metrics; choose another name"),
        (f"targets: [{{url: http://a, labels: {{a: {'x' * 1025}}}}}]", "1: targets[0].labels.a has a value of more than 1,024 characters; shorten it"),
        ('targets: [{url: http://a, labels: {a: "x\\u202e"}}]', "1: targets[0].labels.a has a value with a character that cannot be printed, such as a line break; remove it"),
        ('targets: [{url: http://a, name: "x\\n"}]', "1: targets[0].name has a value with a character that cannot be printed, such as a line break; remove it"),
        (f"targets: [{{url: http://a, labels: {{{'x' * 129}: b}}}}]", f"1: targets[0].labels.{'x' * 129} has a name of more than 128 characters; choose a shorter one"),
        (f"targets: [{{url: http://a, labels: {{{', '.join(f'l{number}: b' for number in range(65))}}}}}]", "1: targets[0].labels has 65 labels; a target may have 64, so remove some"),
        ("metrics: {enable: [rate]}", "1: metrics.enable[0] is not a group of metrics; did you mean `rates`?"),
        ("metrics: {enable: [zzz]}", "1: metrics.enable[0] is not a group of metrics; the groups are counters, acceptance, rates, sums, latency, load, distribution, pay, drops, experiments, requests, integrity, exporter"),
        ("metrics: {enable: [rates], disable: [rates]}", "1: metrics.disable names rates, which `enable` also names; remove one of the two"),
        ("discovery: {files: [a/*/b.yml]}", "1: discovery.files[0] has a wildcard before its last `/`; write one pattern for each directory"),
        ("discovery: {files: [a.txt]}", "1: discovery.files[0] does not end in .json, .yml or .yaml"),
        ("discovery: {dns: [{names: [a], type: A}]}", "1: discovery.dns[0].port is missing; an A record has no port"),
        ("discovery: {dns: [{names: [a], port: 1}]}", "1: discovery.dns[0].port is not used: an SRV record has the port; remove it, or set `type: A`"),
        ("discovery: {dns: [{names: [a], type: A, port: 70000}]}", "1: discovery.dns[0].port must be at most 65535"),
        ("discovery: {dns: [{names: [a b], type: A, port: 1}]}", "1: discovery.dns[0].names[0] is not a DNS name, such as vllm.example.org"),
        ("discovery: {dns: [{type: A, port: 1}]}", "1: discovery.dns[0].names is missing"),
        ("discovery: {http: [{url: http://u:hunter2@a}]}", "1: discovery.http[0].url holds a user or password; put them under `basic_auth`"),
        ("discovery: {scrape: {metrics_path: metrics}}", "1: discovery.scrape.metrics_path is not a path; it begins with one `/`"),
    ],
)  # fmt: skip
def test_each_mistake_is_reported_in_plain_words(mistakes, text, mistake):
    [reported] = mistakes(text)
    assert reported == mistake or (mistake.endswith("interval") and reported.startswith(mistake))
    assert "hunter2" not in reported
    assert "Input should" not in reported


def test_a_repeated_key_hides_no_mistake_of_its_first_value(mistakes):
    assert mistakes("poll: 5\npoll: {}") == [
        "1: poll must be a mapping of keys to values, not '5'",
        "2: poll is there twice, first in line 1; remove one of the two",
    ]


def test_two_targets_cannot_have_one_address_or_one_name(mistakes):
    assert mistakes(
        """\
        targets:
          - url: http://a
          - url: http://A:80/metrics
            name: other
          - url: http://a/second
          - {url: http://b, name: c}
          - {url: http://c, name: c}
          - oops: x
        """
    ) == [
        "3: targets[1].url is also the address of another target; remove one of the two",
        "5: targets[2].name is missing: its address makes it a second target with the name a:80",
        "7: targets[4].name makes it a second target with the name c; give each its own `name`",
        "8: targets[5].url is missing",
        "8: targets[5].oops is not a known key here; there are `authorization`, `basic_auth`, `tls_config`, `http_headers`, `url`, `name`, `labels`, `speculative`, `cost`, `baseline`, `reference`, `policy`",
    ]


def test_a_second_target_is_reported_together_with_other_mistakes_in_it(mistakes):
    assert mistakes(
        """\
        targets:
          - {url: http://a, name: chat}
          - url: http://b
            name: chat
            labels: {instance: x}
          - {url: http://a, costs: x}
          - {url: ftp://c, name: chat}
        """
    ) == [
        "4: targets[1].name makes it a second target with the name chat; give each its own `name`",
        "5: targets[1].labels.instance is a label that Prometheus sets; choose another name",
        "6: targets[2].url is also the address of another target; remove one of the two",
        "6: targets[2].costs is not a known key here; did you mean `cost`?",
        "7: targets[3].url is not an address; write it as http://host:port/metrics or https://host:port/metrics",
        "7: targets[3].name makes it a second target with the name chat; give each its own `name`",
    ]


def test_a_number_in_a_label_keeps_its_text(read):
    [target] = read("targets: [{url: http://a, labels: {rack: 1.10, on: yes}}]").targets
    assert target.labels == {"rack": "1.10", "on": "yes"}


def test_windows_are_sorted(read):
    assert read("windows: [1h, 30s, 5m]").windows == (30.0, 300.0, 3600.0)


def test_the_interval_of_histograms_follows_a_longer_interval(read):
    assert read("windows: [5m]\npoll: {interval: 20s}").poll.histogram_interval == 20.0


def test_variables_are_looked_up_in_the_environment(read):
    config = read("poll: {interval: '${EVERY}'}\nlog: {level: '${LEVEL}'}", EVERY="2s", LEVEL="debug")
    assert (config.poll.interval, config.log.level) == (2.0, "debug")


def test_a_value_from_the_environment_is_never_repeated(mistakes):
    text = "poll: {interval: '${A}', max_duty_cycle: '${A}', filter: '${A}'}\ntargets: [{url: '${A}'}]\nlog: '${A}'"
    reported = mistakes(text, A="hunter2")
    assert len(reported) == 5
    assert not [one for one in reported if "hunter2" in one]
    assert any("not the value of ${A}" in one for one in reported)


def test_paths_are_relative_to_the_file(read, tmp_path):
    (tmp_path / "token").write_text("t")
    config = read(
        "targets: [{url: http://a, authorization: {credentials_file: token}}]\ndiscovery: {files: [sd/*.yml]}"
    )
    assert config.targets[0].authorization.credentials_file == tmp_path / "token"
    assert config.discovery.files == (tmp_path / "sd/*.yml",)


def test_flags_override_the_file(read):
    overrides = {"poll.interval": "2s", "log.level": "debug", "targets": [{"url": "http://b"}]}
    config = read("poll: {interval: 1s, timeout: 3s}\ntargets: [{url: http://a}]", overrides)
    assert (config.poll.interval, config.poll.timeout, config.log.level) == (2.0, 3.0, "debug")
    assert [target.url for target in config.targets] == ["http://b/metrics"]


def test_a_mistake_in_a_flag_names_the_command_line():
    with pytest.raises(ConfigError) as caught:
        load(None, environ={}, overrides={"poll.interval": "20s", "targets": [{"url": "a:1"}]})
    assert [(one.place, one.path) for one in caught.value.problems] == [
        ("command line", "poll.interval"),
        ("command line", "targets[0].url"),
    ]


def test_a_mistake_in_a_variable_that_stands_for_a_flag_names_the_variable():
    url = FromVariable.of("a:1", "TARGETS")
    overrides = {
        "poll.interval": FromVariable.of("20s", "EVERY"),
        "log.level": "loud",
        "cost.draft_parameters": FromVariable.of("8B", "DRAFT"),
        "targets": [
            {"url": "http://b"},
            {"url": "http://B:80", "speculative": {"tokens": FromVariable.of("0", "TOKENS")}},
            {"url": url, "speculative": {"tokens": 0}},
        ],
    }
    with pytest.raises(ConfigError) as caught:
        load(None, environ={}, overrides=overrides)
    assert [(one.place, one.path) for one in caught.value.problems] == [
        ("EVERY", "poll.interval"),
        ("DRAFT", "cost.draft_parameters"),
        ("command line", "targets[1].url"),
        ("TOKENS", "targets[1].speculative.tokens"),
        ("TARGETS", "targets[2].url"),
        ("command line", "targets[2].speculative.tokens"),
        ("command line", "log.level"),
    ]


def test_a_variable_overrides_the_file_and_mistakes_of_the_file_keep_their_line(mistakes):
    overrides = {"cost.draft_cost_ratio": FromVariable.of("-1", "COST"), "log.level": "loud"}
    reported = mistakes("cost:\n  running_requests: 0\n  draft_cost_ratio: 1\n", overrides=overrides)
    assert [one.partition(" ")[:1] for one in reported] == [("COST:",), ("command",), ("2:",)]


def test_a_target_may_have_a_cost_beside_the_general_one(read):
    text = "cost: {draft_cost_ratio: 0.1}\ntargets: [{url: http://a, cost: {draft_cost_ratio: 0.2, running_requests: 8}}]"
    config = read(text)
    assert (config.cost.ratio, config.targets[0].cost.ratio) == (0.1, 0.2)


def test_the_state_path_is_relative_to_the_file_unless_it_is_absolute(read, tmp_path):
    assert read("").state == StateSettings(file=None, interval=60.0)
    assert read("state: {file: state.json, interval: 5m}").state.file == tmp_path / "state.json"
    assert read("state: {file: /nowhere/state.json}").state.file == Path("/nowhere/state.json")
    (tmp_path / "there.json").touch()
    assert read("state: {file: there.json}").state.file == tmp_path / "there.json"


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        (".", "is a directory; name a file in it"),
        ("''", "is a directory; name a file in it"),
        ("/dev/null", "is not a plain file; name another"),
        ("exporter.yml/state", "names a file that cannot be used: {directory}/exporter.yml/state: Not a directory"),
        ('"a\\0"', "is not the name of a file"),
    ],
)  # fmt: skip
def test_an_unusable_state_file_is_rejected(mistakes, name, reported):
    assert mistakes(f"state: {{file: {name}}}") == [
        f"1: state.file {reported.format(directory=mistakes.directory)}"
    ]


def test_a_flag_in_an_invalid_section_leaves_the_mistake_to_the_section(mistakes):
    assert mistakes("poll: 5\n", overrides={"poll.interval": "2s"}) == [
        "1: poll must be a mapping of keys to values, not '5'"
    ]


def test_a_file_that_cannot_be_read_is_one_mistake(tmp_path):
    for path, reason in (
        (tmp_path, "Is a directory"),
        (tmp_path / "nowhere.yml", "No such file or directory"),
    ):
        with pytest.raises(ConfigError, match=reason) as caught:
            load(path, environ={})
        assert str(caught.value) == f"{path} cannot be read: {reason}"


def test_a_mistake_reads_as_a_sentence_with_its_place_first(write):
    path = write("poll:\n  interval: 1\n")
    with pytest.raises(ConfigError) as caught:
        load(path, environ={})
    assert str(caught.value).startswith(f"{path}:2: poll.interval is not a duration; ")


@pytest.mark.parametrize("name", ["/dev/zero", "\\0", "", "a" * 5000])
def test_a_secret_file_must_be_a_plain_file(mistakes, name):
    [reported] = mistakes(f'targets: [{{url: http://a, authorization: {{credentials_file: "{name}"}}}}]')
    assert (
        "targets[0].authorization.credentials_file names a file" in reported
        or "is not the name of a file" in reported
    )


scalars = st.text(max_size=8) | st.sampled_from(
    ["1s", "0", "", "~", "http://a", "${A}", "${B", "$$", "[", "&a", "*a", "off", "rates", "/dev", "\ud800", "\x00", "9" * 5000]
)  # fmt: skip
keys = st.sampled_from(
    ["poll", "interval", "windows", "targets", "url", "name", "labels", "discovery", "files", "http", "dns",
     "names", "type", "authorization", "credentials", "http_headers", "values", "tls_config", "ca_file", "scrape", "<<",
     "cost", "loads", "draft_cost_ratio", "draft_parameters", "target_parameters", "running_requests", "speculative",
     "kubernetes", "ports", "shard", "index", "tokens", "policy", "speedup", "poor", "drops", "ratio", "state", "file", "limits", "engines"]
)  # fmt: skip
documents = st.recursive(
    scalars,
    lambda below: (
        st.lists(below, max_size=4) | st.dictionaries(keys | st.text(max_size=4), below, max_size=5)
    ),
    max_leaves=25,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(st.binary(max_size=300) | documents.map(lambda value: yaml.safe_dump(value).encode()))
def test_any_file_gives_a_configuration_or_its_mistakes(tmp_path, data):
    path = tmp_path / "any.yml"
    path.write_bytes(data)
    problems = ()
    try:
        load(path, environ={"A": "hunter2"})
    except ConfigError as error:
        problems = (str(error), *error.problems)
        assert len(problems) > 1
    assert not [one for one in problems if "hunter2" in str(one).encode().decode()]


def test_a_mistake_in_a_section_from_a_variable_names_the_variable():
    overrides = {"cost.fixed_cost_ratio": FromVariable.of("1", "FIXED"), "log.level": "info"}
    with pytest.raises(ConfigError) as caught:
        load(None, environ={}, overrides=overrides)
    assert [(one.place, one.path) for one in caught.value.problems] == [("FIXED", "cost")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_secret_file_must_be_readable(mistakes, tmp_path):
    (tmp_path / "token").touch(mode=0)
    [reported] = mistakes("targets: [{url: http://a, authorization: {credentials_file: token}}]")
    assert "Permission denied" in reported


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


def test_the_configuration_in_effect_is_shown_without_secrets(read, tmp_path):
    (tmp_path / "token").write_text("hunter2")
    shown = active_yaml(read(FILE, S="hunter2"))
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


def test_the_redacted_configuration_can_be_loaded_again(read):
    config = read(
        "poll: {timeout: 3s}\ntargets: [{url: http://a, labels: {rack: '07'}}]\nmetrics: {disable: [rates]}"
    )
    assert read(active_yaml(config)) == config
