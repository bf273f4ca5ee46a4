"""Mistakes in a configuration: each is reported at its line and key, in plain words and with a remedy."""

import pytest

from tests.unit.config.loading import mistakes

DURATION = "is not a duration; write a number with its unit, such as 500ms, 30s, 5m or 1h30m"
PLAIN_SECRET = "is a secret in plain text; name a file that holds it with `credentials_file`, or write `${NAME}` alone to take it from the environment"
UNPRINTABLE = "has a value with a character that cannot be printed, such as a line break; remove it"
NO_COST = " has no cost; add `draft_cost_ratio` or `loads`"
TWO_LOADS = "[{running_requests: 1, draft_cost_ratio: 0}, {running_requests: 2, draft_cost_ratio: 0}]"

DOCUMENT = [
    ("a", " must be a mapping of keys to values, such as `poll:`"),
    ("poll: 1s", "poll must be a mapping of keys to values, not '1s'"),
    ("poll: {interval: 0}", "poll.interval must be more than 0"),
    ("poll: {timeout: 2y}", "poll.timeout is longer than a year"),
    ("poll: {max_body: 16}", "poll.max_body is not a size; write a whole number with its unit, such as 512KiB or 16MiB"),
    ("poll: {max_duty_cycle: much}", "poll.max_duty_cycle must be a number, not 'much'"),
    ("poll: {max_duty_cycle: nan}", "poll.max_duty_cycle must be a finite number, not 'nan'"),
    ("poll: {interval: 2s}\nwindows: [5s, 1m]", "poll.interval is more than a third of the shortest window, 5s; make it at most 1s666ms"),
    ("windows: [6s]", "poll.histogram_interval is more than a third of the longest window, 6s; make it at most 2s"),
    ("poll: {interval: 10s, histogram_interval: 5s}", "poll.histogram_interval is shorter than `interval`, 10s; make it at least that long"),
    ("windows: 30s", "windows must be a list, not '30s'; write `- ` before each of its elements"),
    ("windows: []", "windows must not be empty"),
    ("targets: {url: http://a}", "targets must be a list, not a mapping; write `- ` before each of its elements"),
    ("targets: [{url: [a]}]", "targets[0].url must be a text, not a list"),
    ("metrics: {enable: [rate]}", "metrics.enable[0] is not a group of metrics; did you mean `rates`?"),
    ("metrics: {enable: [zzz]}", "metrics.enable[0] is not a group of metrics; there are `counters`, `acceptance`, `rates`, `sums`, `latency`, `load`, `distribution`, `pay`, `drops`, `experiments`, `requests`, `integrity`, `exporter`"),
    ("metrics: {enable: [rates], disable: [rates]}", "metrics.disable names rates, which `enable` also names; remove one of the two"),
    ("discovery: {files: [a/*/b.yml]}", "discovery.files[0] has a wildcard before its last `/`; write one pattern for each directory"),
    ("discovery: {files: [a.txt]}", "discovery.files[0] does not end in .json, .yml or .yaml"),
    ("discovery: {dns: [{names: [a], type: A}]}", "discovery.dns[0].port is missing; an A record has no port"),
    ("discovery: {dns: [{names: [a], port: 1}]}", "discovery.dns[0].port is not used: an SRV record has the port; remove it, or set `type: A`"),
    ("discovery: {dns: [{names: [a b], type: A, port: 1}]}", "discovery.dns[0].names[0] is not a DNS name, such as vllm.example.org"),
    ("discovery: {http: [{url: http://u:hunter2@a}]}", "discovery.http[0].url holds a user or password; put them under `basic_auth`"),
    ("discovery: {scrape: {metrics_path: metrics}}", "discovery.scrape.metrics_path is not a path; it begins with one `/`"),
    ("log: {summary_interval: 999ms}", "log.summary_interval "),
    ("baseline: {prometheus: {match: ''}}", "baseline.prometheus"),
    *((f"baseline: {{prometheus: {{url: http://p:9090, {keys}}}}}", f"baseline.prometheus.{mistake}") for keys, mistake in (
        ("match: job=vllm", "match is not a list of label matchers; write for example 'job=\"vllm\""),
        ("lookback: 10m", "lookback must be 1h to 90d"),
    )),
]  # fmt: skip
"""Whole documents, of one line each."""

TARGET = [
    ("name: ''", "name must not be empty"),
    ('name: "x\\n"', f"name {UNPRINTABLE}"),
    ("labels: {__a: b}", "labels.__a begins with two underscores, which Prometheus reserves; choose another name"),
    ("labels: {window: b}", "labels.window is a label of the exporter's own metrics; choose another name"),
    (f"labels: {{a: {'x' * 1025}}}", "labels.a has a value of more than 1,024 characters; shorten it"),
    ('labels: {a: "x\\u202e"}', f"labels.a {UNPRINTABLE}"),
    (f"labels: {{{'x' * 257}: b}}", f"labels.{'x' * 256} has a name of more than 256 characters; choose a shorter one"),
    (f"labels: {{{', '.join(f'l{number}: b' for number in range(65))}}}", "labels has more than 64 entries; remove some"),
    ("authorization: {credentials: hunter2}", f"authorization.credentials {PLAIN_SECRET}"),
    ("authorization: {credentials: 'hunter-${T}'}", f"authorization.credentials {PLAIN_SECRET}"),
    ("authorization: {credentials: [hunter2]}", "authorization.credentials must be a text, not a list"),
    ("authorization: {credentials: '${EMPTY}'}", "authorization.credentials is empty: the environment variable in ${EMPTY} holds nothing"),
    ("authorization: {type: Bearer}", "authorization has no token; add `credentials_file`"),
    ("authorization: {type: basic, credentials: '${T}'}", "authorization.type cannot be Basic; use `basic_auth` with a username and a password"),
    ("authorization: {type: 'a b', credentials: '${T}'}", "authorization.type is not a word that a header may hold: letters, digits and hyphens"),
    ("authorization: {credentials: '${T}', credentials_file: exporter.yml}", "authorization.credentials_file cannot stand beside `credentials`; remove one of the two"),
    ("authorization: {credentials: '${T}'}, basic_auth: {username: a}", "basic_auth cannot stand beside `authorization`; remove one of the two"),
    ("basic_auth: {password: '${T}'}", "basic_auth.username is missing"),
    ("tls_config: {cert_file: exporter.yml}", "tls_config has a certificate alone; add `key_file`"),
    ("tls_config: {insecure_skip_verify: perhaps}", "tls_config.insecure_skip_verify must be true or false, not 'perhaps'"),
    ('http_headers: {X-A: {values: ["a\\nb"]}}', "http_headers.X-A.values[0] is not a header's value: it must be one line of visible ASCII characters"),
    ("http_headers: {X-A: {values: ['${T}']}}", "http_headers.X-A.values[0] comes from the environment, so it may be a secret; use `authorization` or `basic_auth`"),
    ("http_headers: {X-A: {}}", "http_headers.X-A.values is missing"),
    ("http_headers: {'X A': {values: [b]}}", "http_headers.X A is not a word that a header may hold: letters, digits and hyphens"),
    ("http_headers: {host: {values: [b]}}", "http_headers.host is a header that the exporter sets itself; remove it"),
    ("http_headers: [a]", "http_headers must be a mapping of names to values, not a list"),
    ("follow_redirects: true", "follow_redirects is not a known key here; there are `authorization`, `basic_auth`, `tls_config`, `http_headers`, `url`, `name`, `labels`, `speculative`, `cost`, `baseline`, `reference`, `policy`"),
    ("reference: {}", "reference has no rate; add `acceptance_ratio`, or the `file` that `observe --save` wrote"),
    ("reference: {acceptance_ratio: 0.7, file: a}", "reference.file cannot stand beside `acceptance_ratio`; remove one of the two"),
    ("reference: {file: a, tokens: 4}", "reference.file cannot stand beside `tokens`; remove one of the two"),
    ("reference: {acceptance_ratio: 0.7, model_name: a}", "reference.model_name selects a model of a `file`, but no `file` is set; remove it"),
    ("speculative: {tokens: 2.5}", "speculative.tokens must be a whole number, not '2.5'"),
    (f"speculative: {{draft_model: {'a' * 257}}}", "speculative.draft_model must be at most 256 characters long"),
    ("speculative: {num_speculative_tokens: 3}", "speculative.num_speculative_tokens is not a known key here; there are `method`, `tokens`, `draft_model`, `draft_memory`, `schedule`, `architecture`, `expected_positions`, `rejection_method`, `adaptive`"),
    *((f"speculative: {{expected_positions: {value}}}", "speculative.expected_positions") for value in ("[1.01]", "0.5", str([0.5] * 129))),
    *((f"speculative: {{schedule: {value}}}", "speculative.schedule") for value in ("[[0, 3, 4]]", "[[1, 9, 4], [8, 64, 0]]", "4")),
]  # fmt: skip
"""Keys of a target."""

COST = [
    ("{}", NO_COST),
    (f"{{draft_cost_ratio: 0, loads: {TWO_LOADS}}}", ".loads cannot stand beside `draft_cost_ratio`; remove one of the two"),
    (f"{{running_requests: 4, loads: {TWO_LOADS}}}", ".running_requests cannot stand beside `loads`; remove one of the two"),
    ("{loads: [{running_requests: 1, draft_cost_ratio: 0}]}", ".loads needs two loads or more; for one, use `draft_cost_ratio` and `running_requests`"),
    ("{loads: [{running_requests: 8, draft_cost_ratio: 0}, {running_requests: 8.0, draft_cost_ratio: 1}]}", ".loads has several costs at one number of running requests; keep one of each"),
    ("{loads: [{running_requests: 0, draft_cost_ratio: -1}, {running_requests: 8}]}", [
        ".loads[0].running_requests must be more than 0", ".loads[0].draft_cost_ratio must be at least 0", ".loads[1].draft_cost_ratio is missing",
    ]),
    ("{draft_cost_ratio: inf}", ".draft_cost_ratio must be a finite number, not 'inf'"),
]  # fmt: skip

POLICY = [
    ("{speedup: {poor: 0.9}}", ".speedup.poor makes `harmful`, 1, more than `poor`, 0.9; change one of the two"),
    ("{speedup: {poor: 1.5}}", ".speedup.poor makes `poor`, 1.5, more than `marginal`, 1.3; change one of the two"),
    ("{acceptance: {poor_ratio: 0.4}}", ".acceptance is not a known key here; there are `min_drafts`, `speedup`, `depth`, `findings`, `drops`"),
    ("{speed_up: {}}", ".speed_up is not a known key here; did you mean `speedup`?"),
    ("{drops: {ratio: 1}}", ".drops.ratio must be less than 1"),
    ("{drops: {false_alarm_period: 60}}", f".drops.false_alarm_period {DURATION}"),
]  # fmt: skip

KUBERNETES = [
    ("namespaces: [A]", "namespaces[0] is not the name of a namespace"),
    ("label_selector: app=vllm;tier", "label_selector is not a selector of labels"),
    *((f"ports: [{port}]", "ports[0] is neither the number of a port") for port in ("0", "65536", "HTTP", "a-very-long-port-name", "-a", "''")),
    ("namespaces: [a], all_namespaces: true", "all_namespaces cannot stand beside `namespaces`"),
    ("labels: {pod: x}", "labels.pod is a label that every pod's target has"),
    ("labels: {job: x}", "labels.job is a label that Prometheus sets"),
    ("labels: {team: 'a b'}", "labels.team is not the key of a pod's label"),
]  # fmt: skip

REQUESTS = [
    ("{users: {}}", ".users.salt_file is missing"),
    ("{users: {salt_file: salt}}", ".users has a salt of less than 16 bytes; `openssl rand -hex 32` writes one"),
    ("{users: {salt_file: nowhere}}", ".users.salt_file names a file that cannot be read"),
]  # fmt: skip

SECTIONS = [
    ("%", "", DOCUMENT),
    ("targets: [{url: http://a, %}]", "targets[0].", TARGET),
    ("cost: %", "cost", COST),
    ("policy: %", "policy", POLICY),
    ("discovery: {kubernetes: [{%}]}", "discovery.kubernetes[0].", KUBERNETES),
    ("requests: %", "requests", REQUESTS),
]
"""What stands around the text of each row, and the beginning of its mistakes."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            around.replace("%", text),
            [f"1: {place}{mistake}" for mistake in ([reported] if isinstance(reported, str) else reported)],
            id=f"{place}{text[:60]}",
        )
        for around, place, rows in SECTIONS
        for text, reported in rows
    ],
)
def test_a_mistake_is_reported_at_its_key_in_plain_words(tmp_path, text, expected):
    (tmp_path / "salt").write_text("hunter2")
    reported = mistakes(tmp_path, text, T="hunter2", EMPTY="")
    assert [one[: len(start)] for one, start in zip(reported, expected, strict=True)] == expected
    assert not [one for one in reported if "hunter2" in one or "Input should" in one]


def test_every_mistake_is_reported_at_once_with_its_line(tmp_path):
    assert mistakes(
        tmp_path,
        """\
        poll:
          intervall: 2s
          timeout: 5
          filter: of
        targets:
          - url: localhost:8000
            labels: {job: a, 1x: b}
          - url: ${NOWHERE}
            tls_config: {key_file: nowhere.key}
        log:
          level: warn
        log:
          format: json
        extra: 1
        """,
    ) == [
        "2: poll.intervall is not a known key here; did you mean `interval`?",
        f"3: poll.timeout {DURATION}",
        "4: poll.filter must be 'auto' or 'off', not 'of'",
        "6: targets[0].url is not an address; write it as http://host:port/metrics or https://host:port/metrics",
        "7: targets[0].labels.job is a label that Prometheus sets; choose another name",
        "7: targets[0].labels.1x is not a label name; use letters, digits and underscores, and no digit first",
        "8: targets[1].url the environment variable NOWHERE is not set; set it, or write `$${NOWHERE}` for the text",
        f"9: targets[1].tls_config.key_file names a file that cannot be read: {tmp_path}/nowhere.key: No such file or directory",
        "11: log.level must be 'debug', 'info', 'warning' or 'error', not 'warn'",
        "12: log is there twice, first in line 10; remove one of the two",
        "14: extra is not a known key here; there are `windows`, `poll`, `cost`, `baseline`, `reference`, `policy`, `discovery`, `targets`, `experiments`, `requests`, `metrics`, `state`, `log`, `limits`",
    ]


def test_a_repeated_key_hides_no_mistake_of_its_first_value(tmp_path):
    assert mistakes(tmp_path, "poll: 5\npoll: {}") == [
        "1: poll must be a mapping of keys to values, not '5'",
        "2: poll is there twice, first in line 1; remove one of the two",
    ]


def test_two_targets_cannot_have_one_address_or_one_name(tmp_path):
    assert mistakes(
        tmp_path,
        """\
        targets:
          - url: http://a
          - url: http://A:80/metrics
            name: other
          - url: http://a/second
          - {url: http://b, name: c}
          - url: http://c
            name: c
          - {url: http://b}
        """,
    ) == [
        "3: targets[1].url is also the address of another target; remove one of the two",
        "5: targets[2].name is missing: its address makes it a second target with the name a:80; give each its own `name`",
        "8: targets[4].name makes it a second target with the name c; give each its own `name`",
        "9: targets[5].url is also the address of another target; remove one of the two",
    ]


def test_a_targets_thresholds_are_checked_together_with_the_general_ones(tmp_path):
    text = """\
        policy: {speedup: {marginal: 1.5}}
        targets:
          - url: http://a
            policy: {speedup: {poor: 1.4}}
          - url: http://b
            policy:
              speedup:
                poor: 1.6
                healthy: 1.4
          - url: http://c
    """
    assert mistakes(tmp_path, text) == [
        "8: targets[1].policy.speedup.poor makes `poor`, 1.6, more than `marginal`, 1.5; change one of the two",
        "9: targets[1].policy.speedup.healthy makes `marginal`, 1.5, more than `healthy`, 1.4; change one of the two",
    ]
    text = "policy: {speedup: {poor: 0.9}}\ntargets: [{url: http://a, policy: {min_drafts: 5}}]"
    assert len(mistakes(tmp_path, text)) == 1


EXPERIMENT = """\
    experiments:
      - name: drafter
        arms:
          "off": {match: {method: "off", team: a}}
          eagle: {match: {method: eagle3, team: a}}
        baseline: "off"
    """
ARM = "method: eagle3, team: a"
SHARED = "5: experiments[0].arms.eagle.match may match the engines of `off`; give both"


@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        ('baseline: "off"', "baseline: none", "6: experiments[0].baseline is not one of the arms; there are off, eagle"),
        (f"          eagle: {{match: {{{ARM}}}}}\n", "", "3: experiments[0].arms needs two arms or more"),
        (ARM, "team: a", SHARED),
        (ARM, "method: 'off', zone: z", SHARED),
        (ARM, "target: a", "5: experiments[0].arms.eagle.match.target is a label of the exporter's own metrics"),
        (ARM, "job: a", "5: experiments[0].arms.eagle.match.job is a label that Prometheus sets"),
        (ARM, "", "5: experiments[0].arms.eagle.match must not be empty"),
        *(("name: drafter", f"name: {name}", "2: experiments[0].name ") for name in ("''", "a b", "'a{b}'", "-a", "a" * 65, "ä")),
        ("    \n", "    discovery: {shard: {count: 3}}\n", "1: experiments cannot be compared by one of 3 exporters"),
    ],
)  # fmt: skip
def test_an_invalid_experiment_is_rejected_with_the_reason(tmp_path, old, new, mistake):
    text = f"{EXPERIMENT}\n"
    assert text.count(old) == 1
    assert any(each.startswith(mistake) for each in mistakes(tmp_path, text.replace(old, new)))


def test_a_second_experiment_of_the_same_name_is_rejected(tmp_path):
    again = "\n".join(EXPERIMENT.split("\n")[1:])
    [reported] = mistakes(tmp_path, EXPERIMENT.rstrip(" ") + again)
    assert reported == "7: experiments[1].name is also the name of another experiment; give each its own"
