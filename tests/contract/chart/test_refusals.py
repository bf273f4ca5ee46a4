"""The chart rejects values that cannot work before installation, with a remedy."""

import pytest
import yaml

from tests.contract.chart.rendering import ON, render


def looking(**keys):
    """Return values by which the exporter looks for pods."""
    return {"config": {"discovery": {"kubernetes": [keys]}}}


SIDECAR = {"mode": "sidecar", "config": {"policy": {"min_drafts": 5}}}
USERS = {"basic_auth_users": {"prometheus": "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"}}
PASSWORD = {"username": {"name": "a", "key": "u"}, "password": {"name": "a", "key": "p"}}
MONITOR = {"monitor": {"enabled": True}}
MOUNT = {"extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}]}
NOT_INGESTED = {**ON, "config": {"requests": {"ingest": False}}}
OWN_TLS = {"tls_server_config": {"cert_file": "/a", "key_file": "/b"}}
SECRET_TLS = {"tls_server_config": {"cert_file": "tls.crt", "key_file": "/tls.key"}}
MISSPELT = {"SpecDecodeSudenDrop": {"for": "10m"}}
OLD_KIND = {"SpecDecodeSuddenDrop/slow": {"for": "10m"}}
CANNOT_WORK = [
    ({"mode": "sidecar"}, "set monitor.enabled, prometheusRule.enabled and dashboards.enabled"),
    ({**SIDECAR, "persistence": {"enabled": True}}, "persistence is for mode: fleet"),
    ({**SIDECAR, "replicaCount": 2}, "replicaCount is for mode: fleet"),
    ({"extraArgs": ["--target=http://vllm:8000"]}, "Write config.targets instead"),
    ({"web": {"config": USERS}, **MONITOR}, "Set monitor.basicAuth"),
    (MOUNT, "names ca, which is not in extraVolumes"),
    (looking(namespaces=["${PLACE}"]), "write its name, or set rbac.create to false"),
    ({"web": {"config": SECRET_TLS}}, "set it to the Secret that has the file"),
    ({**ON, "mode": "fleet"}, "mode: sidecar"),
    ({**ON, "config": {}}, "config.requests.ingest"),
    (NOT_INGESTED, "config.requests.ingest"),
    ({"prometheusRule": {"enabled": True, "overrides": MISSPELT}}, "SpecDecodeSudenDrop, which is no alert"),
    ({"prometheusRule": {"enabled": True, "overrides": OLD_KIND}}, "SpecDecodeSuddenDrop/slow, which is no alert"),
    ({"web": {"config": OWN_TLS}, **MONITOR}, "Set monitor.tlsConfig"),
]  # fmt: skip
NOT_OF_THE_SCHEMA = [
    (looking(selector="a=b"), "'selector' not allowed"),
    ({**SIDECAR, "config": {"cots": {}}}, "'cots' not allowed"),
    ({**SIDECAR, "sidecar": {"namespaces": ["*"]}}, "at '/sidecar/namespaces/0'"),
    (looking(label_selector="app in (vllm"), "label_selector"),
    ({"commonLabels": {"app.kubernetes.io/name": "x"}}, "propertyName 'app.kubernetes.io/name'"),
]


@pytest.mark.parametrize(("values", "part"), [*CANNOT_WORK, *NOT_OF_THE_SCHEMA])
def test_values_that_cannot_work_are_refused_with_a_remedy(values, part):
    from helm_python.errors import HelmError

    with pytest.raises(HelmError) as refused:
        render(values)
    assert part in str(refused.value)


def test_more_exporters_than_one_share_their_targets():
    rendered = render({"replicaCount": 2})
    assert rendered.one("StatefulSet")["spec"]["replicas"] == 2
    assert not rendered.of("Deployment")
    assert yaml.safe_load(rendered.config())["discovery"]["shard"] == {"count": 2, "index": "auto"}


@pytest.mark.parametrize(
    "selector",
    ["", "app", "!app", "app=vllm", "app==", "example.org/app!=x", "a in (b, c),!d", "a notin (b), c > 5"],
)
def test_selectors_that_kubernetes_takes_are_taken(selector):
    config = yaml.safe_load(render(looking(label_selector=selector)).config())
    (made,) = config["discovery"]["kubernetes"]
    assert made == {"label_selector": selector, "namespaces": ["obs"]}
