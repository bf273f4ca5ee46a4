"""The exporter accepts the arguments, variables and configuration of the chart."""

from __future__ import annotations

import pytest

from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.config.load import load
from spec_decode_exporter.monitor.fleet import WITHOUT_LIMIT, engines_that_fit


@pytest.fixture
def accepted(tmp_path):
    """Return the configuration that the exporter reads from a ConfigMap."""

    def read(rendered, **environ):
        configs = [one for one in rendered.of("ConfigMap") if "exporter.yml" in one["data"]]
        path = tmp_path / "exporter.yml"
        path.write_text(configs[0]["data"]["exporter.yml"])
        return load(path, environ=environ)

    return read


@pytest.mark.parametrize("case", ["fleet", "shards", "static", "sidecar"])
def test_its_configurations_are_accepted(render, accepted, case, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "rel-spec-decode-exporter-2")
    config = accepted(render(case), VLLM_TOKEN="secret", TARGET_PORT="8200")
    assert str(config.state.file) == "/var/lib/spec-decode-exporter/state.json"
    if case == "shards":  # each knows its number by the name of its pod
        assert (config.discovery.shard.count, config.discovery.shard.index) == (3, 2)
    if case == "sidecar":  # it watches the port of its own pod
        assert [target.url for target in config.targets] == ["http://localhost:8200/metrics"]


def test_the_namespace_is_that_of_the_release_where_none_is_named(render, accepted):
    (kubernetes,) = accepted(render()).discovery.kubernetes
    assert kubernetes.namespaces == ("obs",)
    assert kubernetes.label_selector == "spec-decode-exporter/watch=true"


def test_a_configuration_that_says_nothing_of_targets_leaves_the_default(render, accepted):
    config = accepted(render({"config": {"policy": {"min_drafts": 5}}}))
    assert [one.label_selector for one in config.discovery.kubernetes] == ["spec-decode-exporter/watch=true"]
    assert config.policy.min_drafts == 5
    assert accepted(render({"config": None})).discovery.kubernetes == config.discovery.kubernetes


def test_targets_or_a_discovery_of_one_s_own_take_its_place(render, accepted):
    config = accepted(render({"config": {"targets": [{"url": "http://vllm:8000"}]}}))
    assert (len(config.targets), config.discovery.kubernetes) == (1, ())
    dns = {"dns": [{"names": ["vllm"], "type": "A", "port": 8000}]}
    config = accepted(render({"config": {"discovery": dns}}))
    assert (len(config.discovery.dns), config.discovery.kubernetes) == (1, ())


@pytest.mark.parametrize("case", ["fleet", "shards", "static"])
def test_its_arguments_are_accepted(render, case):
    arguments = parse(render(case).container()["args"], {})
    assert arguments.config_auto_reload
    assert arguments.config_file == "/etc/spec-decode-exporter/exporter.yml"


@pytest.mark.parametrize("values", [{}, {"config": {"policy": {"min_drafts": 5}}}])
def test_those_of_a_sidecar_too(render_sidecar, values):
    (sidecar,) = render_sidecar(values)["initContainers"]
    environ = {one["name"]: one["value"] for one in sidecar["env"]}
    arguments = parse(sidecar["args"], environ)
    assert arguments.web_listen_address == [":7732"]
    assert bool(arguments.config_file) == bool(values)
    assert arguments.target == ([] if values else ["http://localhost:8000/metrics"])


def test_it_gets_a_token_only_where_it_asks_the_api(render):
    def token(case):
        workload = render(case).one("Deployment")
        return workload["spec"]["template"]["spec"]["automountServiceAccountToken"]

    assert token("fleet") is True
    assert token("static") is False


def test_rights_are_those_of_the_namespaces_where_it_looks(render):
    roles = render("fleet").of("Role")
    assert {one["metadata"]["namespace"] for one in roles} == {"inference", "research"}
    for one in roles:
        assert one["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
    assert not render("static").of("Role")
    assert not render({"rbac": {"create": False}}).of("Role")
    elsewhere = [{"api_server": "https://api.example.org", "namespaces": ["inference"]}]
    assert not render({"config": {"discovery": {"kubernetes": elsewhere}}}).of("Role")


def engines(container):
    """Return the engines that fit into the memory limit of a container."""
    return engines_that_fit(int(container["resources"]["limits"]["memory"].removesuffix("Mi")) * 2**20)


def test_the_default_memory_limit_has_room_for_all_engines_that_an_exporter_takes(render, render_sidecar):
    assert engines(render().container()) == WITHOUT_LIMIT
    assert engines(render_sidecar()["initContainers"][0]) == 192


def test_no_default_limits_the_cpu_but_each_requests_some(render, render_sidecar):
    for one in (render().container(), render_sidecar()["initContainers"][0]):
        assert set(one["resources"]["requests"]) == {"cpu", "memory"}
        assert set(one["resources"]["limits"]) == {"memory"}
