"""The exporter accepts the arguments, variables and configuration of the chart."""

import pytest

from spec_decode_exporter.config.load import load
from spec_decode_exporter.monitor.target_monitor import WITHOUT_LIMIT, engines_that_fit
from tests.contract.chart.rendering import render, render_sidecar

WATCHED = "spec-decode-exporter/watch=true"


def accepted(folder, rendered, **environ):
    """Return the configuration that the exporter reads from a ConfigMap."""
    (folder / "exporter.yml").write_text(rendered.config())
    return load(folder / "exporter.yml", environ=environ)


@pytest.mark.parametrize("case", ["fleet", "shards", "static", "sidecar"])
def test_its_configurations_are_accepted(tmp_path, case, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "rel-spec-decode-exporter-2")
    config = accepted(tmp_path, render(case), VLLM_TOKEN="secret", TARGET_PORT="8200")
    assert str(config.state.file) == "/var/lib/spec-decode-exporter/state.json"
    if case == "shards":  # each knows its number by the name of its pod
        assert (config.discovery.shard.count, config.discovery.shard.index) == (3, 2)
    if case == "sidecar":  # it watches the port of its own pod
        assert [target.url for target in config.targets] == ["http://localhost:8200/metrics"]


@pytest.mark.parametrize("config", [None, {"policy": {"min_drafts": 5}}], ids=["none", "not of targets"])
def test_without_targets_it_looks_for_labelled_pods_in_its_own_namespace(tmp_path, config):
    (kubernetes,) = accepted(tmp_path, render({"config": config})).discovery.kubernetes
    assert (kubernetes.namespaces, kubernetes.label_selector) == (("obs",), WATCHED)


@pytest.mark.parametrize(("case", "token"), [("fleet", True), ("static", False)])
def test_it_gets_a_token_only_where_it_asks_the_api(case, token):
    spec = render(case).one("Deployment")["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is token


ELSEWHERE = [{"api_server": "https://api.example.org", "namespaces": ["inference"]}]


@pytest.mark.parametrize(
    ("values", "namespaces"),
    [
        ("fleet", {"inference", "research"}),
        ("shards", {None}),
        ("static", set()),
        ({"rbac": {"create": False}}, set()),
        ({"config": {"discovery": {"kubernetes": ELSEWHERE}}}, set()),
    ],
    ids=["two namespaces", "all namespaces", "no discovery", "not by the chart", "another API"],
)
def test_rights_are_to_pods_where_it_looks_and_to_nothing_else(values, namespaces):
    rendered = render(values)
    roles = rendered.of("Role", "ClusterRole")
    assert {one["metadata"].get("namespace") for one in roles} == namespaces
    for one in roles:
        assert one["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]


def test_default_resources_have_room_for_all_engines_and_no_limit_of_the_cpu():
    (sidecar,) = render_sidecar()["initContainers"]
    for container, engines in ((render().container(), WITHOUT_LIMIT), (sidecar, 192)):
        resources = container["resources"]
        assert engines_that_fit(int(resources["limits"]["memory"].removesuffix("Mi")) * 2**20) == engines
        assert set(resources["requests"]) == {"cpu", "memory"}
        assert set(resources["limits"]) == {"memory"}
