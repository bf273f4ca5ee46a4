"""The chart rejects values that cannot work before installation, with a remedy."""

from __future__ import annotations

import pytest
import yaml

from helm.chart_files import CHART
from spec_decode_exporter.cli.main import parse


def looking(**keys):
    """Return values by which the exporter looks for pods."""
    return {"config": {"discovery": {"kubernetes": [keys]}}}


def tls(**keys):
    return {"web": {"config": {"tls_server_config": keys}}}


SIDECAR = {"mode": "sidecar", "config": {"policy": {"min_drafts": 5}}}
USERS = {"basic_auth_users": {"prometheus": "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"}}
PASSWORD = {"username": {"name": "a", "key": "u"}, "password": {"name": "a", "key": "p"}}
MONITOR = {"monitor": {"enabled": True}}
MOUNT = {"extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}]}
MIDDLEWARE = {"mode": "sidecar", "config": {"requests": {"ingest": True}}, "sidecar": {"middleware": True}}
NOT_INGESTED = {**MIDDLEWARE, "config": {"requests": {"ingest": False}}}
CANNOT_WORK = [
    ({"mode": "sidecar"}, "set monitor.enabled, prometheusRule.enabled and dashboards.enabled"),
    ({"mode": "sidecar"}, "or set mode: fleet"),
    ({**SIDECAR, "persistence": {"enabled": True}}, "persistence is for mode: fleet"),
    ({**SIDECAR, "replicaCount": 2}, "replicaCount is for mode: fleet"),
    ({"extraArgs": ["--target=http://vllm:8000"]}, "Write config.targets instead"),
    ({**SIDECAR, "extraArgs": ["--target=http://vllm:8000"]}, "Write config.targets instead"),
    ({"web": {"config": USERS}, **MONITOR}, "Set monitor.basicAuth"),
    ({**SIDECAR, "web": {"config": USERS}, **MONITOR}, "Set monitor.basicAuth"),
    (MOUNT, "names ca, which is not in extraVolumes"),
    (looking(namespaces=["${PLACE}"]), "write its name, or set rbac.create to false"),
    (tls(cert_file="tls.crt", key_file="/tls.key"), "set it to the Secret that has the file"),
    ({**MIDDLEWARE, "mode": "fleet"}, "mode: sidecar"),
    ({**MIDDLEWARE, "config": {}}, "config.requests.ingest"),
    (NOT_INGESTED, "config.requests.ingest"),
]
NOT_OF_THE_SCHEMA = [
    ({"mode": "both"}, "at '/mode'"),
    ({"replica": 2}, "additional properties 'replica' not allowed"),
    ({"image": {"repository": "host:5000/x:tag"}}, "at '/image/repository'"),
    ({"image": {"digest": "sha256:1"}}, "at '/image/digest'"),
    (looking(selector="a=b"), "'selector' not allowed"),
    ({**SIDECAR, "config": {"cots": {}}}, "'cots' not allowed"),
    ({**SIDECAR, "sidecar": {"namespaces": ["*"]}}, "at '/sidecar/namespaces/0'"),
    ({**SIDECAR, "sidecar": {"selector": {"matchLabels": {"a": 1}}}}, "want string"),
    ({"monitor": {"interval": "15 s"}}, "at '/monitor/interval'"),
    ({"monitor": {"basicAuth": {"user": {}}}}, "'user' not allowed"),
    ({"prometheusRule": {"disabled": {"SuddenDrop": True}}}, "'SuddenDrop'"),
    ({"extraArgs": ["log.level=debug"]}, "at '/extraArgs/0'"),
    ({"extraVolumes": [{"name": "spec-decode-exporter-x"}]}, "'not'"),
    ({"web": {"config": {"basic_auth_user": {}}}}, "'basic_auth_user' not allowed"),
    (tls(min_version="TLS10"), "min_version"),
    (tls(cert_file="/tls.crt"), "missing property 'key_file'"),
    ({"web": {"config": {"basic_auth_users": {"prometheus": "hunter2"}}}}, "does not match pattern"),
    (looking(namespaces=["Bad Name"]), "namespaces/0"),
    (looking(label_selector="app in (vllm"), "label_selector"),
    ({"commonLabels": {"app.kubernetes.io/name": "x"}}, "propertyName 'app.kubernetes.io/name'"),
    ({"podLabels": {"app.kubernetes.io/instance": "x"}}, "propertyName 'app.kubernetes.io/instance'"),
    ({"fullnameOverride": "a.b"}, "at '/fullnameOverride'"),
]


@pytest.mark.parametrize(("values", "part"), [*CANNOT_WORK, *NOT_OF_THE_SCHEMA])
def test_values_that_cannot_work_are_refused_with_a_remedy(refused, values, part):
    assert part in refused(values)


@pytest.mark.parametrize(
    "values",
    [
        {"mode": "sidecar", **MONITOR},
        {"mode": "sidecar", "prometheusRule": {"enabled": True}},
        {"mode": "sidecar", "dashboards": {"enabled": True}},
        {**SIDECAR, "monitor": {"enabled": True, "basicAuth": PASSWORD}, "web": {"config": USERS}},
        {"extraArgs": ["--targets.limit=5"]},
        {**looking(namespaces=["${PLACE}"]), "rbac": {"create": False}},
    ],
)
def test_values_beside_those_that_are_refused_are_accepted(render, values):
    assert list(render(values))


def test_the_default_is_a_sidecar():
    """So ``helm install`` without values is refused, and names the choices."""
    assert yaml.safe_load((CHART / "values.yaml").read_text())["mode"] == "sidecar"


def test_a_sidecar_without_a_configuration_may_have_another_target(render_sidecar):
    """The flag has precedence over the variable."""
    (sidecar,) = render_sidecar({"extraArgs": ["--target=http://localhost:9000"]})["initContainers"]
    assert parse(sidecar["args"], {}).target == ["http://localhost:9000"]


def test_more_exporters_than_one_share_their_targets(render):
    rendered = render({"replicaCount": 2})
    assert rendered.one("StatefulSet")["spec"]["replicas"] == 2
    assert not rendered.of("Deployment")
    assert yaml.safe_load(rendered.config())["discovery"]["shard"] == {"count": 2, "index": "auto"}


@pytest.mark.parametrize(
    "selector",
    ["", "app", "!app", "app=vllm", "app==", "example.org/app!=x", "a in (b, c),!d", "a notin (b), c > 5"],
)
def test_selectors_that_kubernetes_takes_are_taken(render, selector):
    config = yaml.safe_load(render(looking(label_selector=selector)).config())
    (made,) = config["discovery"]["kubernetes"]
    assert made == {"label_selector": selector, "namespaces": ["obs"]}
