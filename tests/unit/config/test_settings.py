"""Values of a configuration: what the keys of a document mean."""

import re
import socket
from operator import attrgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.config.batch_schedule import MAX_BATCH
from spec_decode_exporter.config.comparison_settings import ReferenceSettings
from spec_decode_exporter.config.load import active_yaml
from tests.paths import CHECKOUT
from tests.unit.config.loading import mistakes, read

KUBERNETES = "discovery: {kubernetes: [{%s}]}"
SPECULATIVE = "targets: [{url: http://a, speculative: {%s}}]"
ARMS = "experiments: [{name: drafter, arms: {a: {match: {method: ngram, team: a}}, b: {match: %s}}, baseline: a}]"
BOTH = "reference: {acceptance_ratio: 0.7}\ntargets: [{url: http://a, reference: {acceptance_ratio: 0.8, tokens: 4}}]"
PROMETHEUS = "baseline: {prometheus: {url: http://prometheus:9090}}"
TWO_LOADS = "[{running_requests: 2, draft_cost_ratio: 0.2}, {running_requests: 1, draft_cost_ratio: 0.1}]"


@pytest.mark.parametrize(
    ("text", "place", "value"),
    [
        ("targets: [{url: http://a, labels: {rack: 1.10, on: yes}}]", "targets[0].labels", {"rack": "1.10", "on": "yes"}),
        ("windows: [1h, 30s, 5m, 60m]", "windows", (30.0, 300.0, 3600.0)),
        ("requests: {temperatures: [1, 0, 1]}", "requests.temperatures", (0.0, 1.0)),
        ("windows: [5m]\npoll: {interval: 20s}", "poll.histogram_interval", 20.0),
        ("log: {summary_interval: off}", "log.summary_interval", None),
        ("log: {summary_interval: 1m}", "log.summary_interval", 60.0),
        ("discovery: {files: [/sd/*.yml]}", "targets", ()),
        ("experiments: []", "experiments", ()),
        # Kubernetes: without a namespace, the exporter's own; the pods replace the vLLM beside the exporter.
        (KUBERNETES % "label_selector: app=vllm", "discovery.kubernetes[0].watched", (None,)),
        (KUBERNETES % "namespaces: [a, b]", "discovery.kubernetes[0].watched", ("a", "b")),
        (KUBERNETES % "all_namespaces: true", "discovery.kubernetes[0].watched", ("",)),
        (KUBERNETES % "ports: [8000, http]", "discovery.kubernetes[0].ports", ("8000", "http")),
        (KUBERNETES % "label_selector: app=vllm", "targets", ()),
        (KUBERNETES % "label_selector: app=vllm", "discovery.ways", 1),
        # The cost is stated in one of two ways.
        ("cost: {draft_cost_ratio: 0}", "cost.draft_cost_ratio", 0.0),
        (f"cost: {{loads: {TWO_LOADS}}}", "cost.loads[0].running_requests", 1.0),
        ("cost: {draft_cost_ratio: 0.1}\ntargets: [{url: http://a, cost: {draft_cost_ratio: 0.2}}]", "targets[0].cost.draft_cost_ratio", 0.2),
        (SPECULATIVE % "method: ngram", "targets[0].speculative.method", "ngram"),
        (SPECULATIVE % "tokens: 128", "targets[0].speculative.tokens", 128),
        (SPECULATIVE % "expected_positions: [0.87, 1, 0]", "targets[0].speculative.expected_positions", (0.87, 1.0, 0.0)),
        (SPECULATIVE % "schedule: [[16, 64, 0], [1, 3, 4], [4, 7, 2]]", "targets[0].speculative.schedule", ((1, 3, 4), (4, 15, 2), (16, MAX_BATCH, 0))),
        (BOTH, "reference", ReferenceSettings(acceptance_ratio=0.7)),
        (BOTH, "targets[0].reference", ReferenceSettings(acceptance_ratio=0.8, tokens=4)),
        (PROMETHEUS, "baseline.prometheus.url", "http://prometheus:9090"),
        (PROMETHEUS, "baseline.prometheus.match", ""),
        (PROMETHEUS, "baseline.prometheus.lookback", 14 * 86_400),
        # Arms that differ in one common label exclude each other.
        (ARMS % "{method: eagle3, team: a}", "experiments[0].baseline", "a"),
        (ARMS % "{method: eagle3, zone: z}", "experiments[0].arms[a].match", {"method": "ngram", "team": "a"}),
        ("targets: [{url: 'http://a/metrics?model=b'}, {url: 'http://a/metrics?model=org%2Fc'}]", "targets[1].called", "a:80/org/c"),
        # A contradiction of the defaults alone is no mistake of a target.
        ("policy: {speedup: {harmful: 0.5, poor: 0.6}}\ntargets: [{url: http://a, policy: {speedup: {poor: 0.7}}}]", "targets[0].policy.speedup.poor", 0.7),
    ],
)  # fmt: skip
def test_a_key_has_its_value(tmp_path, text, place, value):
    found = read(tmp_path, text)
    for name, key in re.findall(r"\.?(\w+)|\[(\w+)\]", place):
        found = attrgetter(name)(found) if name else found[int(key) if key.isdigit() else key]
    assert found == (pytest.approx(value) if isinstance(value, float) else value)


def test_variables_are_looked_up_in_the_environment(tmp_path):
    config = read(
        tmp_path, "poll: {interval: '${EVERY}'}\nlog: {level: '${LEVEL}'}", EVERY="2s", LEVEL="debug"
    )
    assert (config.poll.interval, config.log.level) == (2.0, "debug")


@pytest.mark.parametrize(("host", "index"), [("exporter-2", 2), ("spec-exporter-11.svc.cluster", 11)])
def test_the_index_of_a_shard_may_be_that_of_a_statefulset(tmp_path, monkeypatch, host, index):
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert read(tmp_path, "discovery: {shard: {index: auto, count: 12}}").discovery.shard.index == index


@pytest.mark.parametrize(
    ("shard", "host", "mistake"),
    [
        *(
            ("index: auto, count: 3", host, f"index is auto, but the host name {host} does not end in")
            for host in ("exporter", "exporter-6d4cf56db6-x7k2p", "2", "a-")
        ),
        ("index: 3, count: 3", "a-0", "index must be less than `count`"),
        *((shard, "a-0", "") for shard in ("count: 0", "count: 1001", "index: -1", "index: automatic")),
    ],
)
def test_an_index_without_its_place_is_rejected(tmp_path, monkeypatch, shard, host, mistake):
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    [reported] = mistakes(tmp_path, f"discovery: {{shard: {{{shard}}}}}")
    assert reported.startswith(f"1: discovery.shard.{mistake}")


def test_a_salt_is_read_from_its_file_and_another_salt_is_another_configuration(tmp_path):
    salt = "0123456789abcdef"
    (tmp_path / "salt").write_text(f"{salt}\n")
    config = read(tmp_path, "requests: {users: {salt_file: salt}}")
    assert config.requests.users.key == salt.encode()
    assert salt not in active_yaml(config)
    (tmp_path / "salt").write_text(salt * 2)
    assert read(tmp_path, "requests: {users: {salt_file: salt}}").requests != config.requests


@given(st.floats(0, 1), st.integers(1, 128) | st.none(), st.integers(0, 128))
def test_an_engine_is_compared_unless_it_drafts_another_number_of_tokens(ratio, tokens, drafted):
    """The rate applies too if either number is unknown."""
    is_other = tokens is not None and drafted not in (0, tokens)
    found = ReferenceSettings(acceptance_ratio=ratio, tokens=tokens).at(drafted)
    assert found == (None if is_other else ratio)


def test_the_documented_experiment_is_valid(tmp_path):
    page = (CHECKOUT / "docs" / "guide" / "experiments.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    (experiment,) = read(tmp_path, example).experiments
    assert list(experiment.arms) == ["off", "eagle", "ngram"]
