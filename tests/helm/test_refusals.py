"""The chart rejects values that cannot work before installation, with a remedy."""

from __future__ import annotations

import pytest
import yaml


def looking(**keys):
    """Return values by which the exporter looks for pods."""
    return {"config": {"discovery": {"kubernetes": [keys]}}}


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"replicaCount": 2}, "set sharding.enabled, or replicaCount to 1"),
        ({"sidecar": {"injection": {"enabled": True}}}, "count the same engines twice"),
        ({"podMonitor": {"enabled": True}}, "scraped through serviceMonitor"),
        ({"mode": "sidecar", "serviceMonitor": {"enabled": True}}, "serviceMonitor is for mode: fleet"),
        ({"mode": "sidecar", "sharding": {"enabled": True}}, "sharding is for mode: fleet"),
        ({"mode": "sidecar", "networkPolicy": {"enabled": True}}, "networkPolicy is for mode: fleet"),
        ({"mode": "sidecar", "persistence": {"enabled": True}}, "persistence is for mode: fleet"),
        ({"mode": "both"}, "at '/mode'"),
        ({"replica": 2}, "additional properties 'replica' not allowed"),
        ({"image": {"repository": "host:5000/x:tag"}}, "at '/image/repository'"),
        ({"image": {"digest": "sha256:1"}}, "at '/image/digest'"),
        ({"config": {"discovery": {"kubernetes": [{"selector": "a=b"}]}}}, "'selector' not allowed"),
        ({"config": {"policy": {"min_draft": 5}}}, "'min_draft' not allowed"),
        ({"mode": "sidecar", "sidecar": {"config": {"cots": {}}}}, "'cots' not allowed"),
        ({"mode": "sidecar", "sidecar": {"namespaces": ["*"]}}, "at '/sidecar/namespaces/0'"),
        ({"mode": "sidecar", "sidecar": {"selector": {"matchLabels": {"a": 1}}}}, "want string"),
        ({"serviceMonitor": {"interval": "15 s"}}, "at '/serviceMonitor/interval'"),
        ({"prometheusRule": {"disabled": {"PollsSlow": True}}}, "'PollsSlow'"),
        ({"extraArgs": ["log.level=debug"]}, "at '/extraArgs/0'"),
        ({"metrics": {"profile": "all"}}, "at '/metrics/profile'"),
        ({"service": {"port": 70000}}, "at '/service/port'"),
        ({"web": {"config": {"basic_auth_user": {}}}}, "'basic_auth_user' not allowed"),
        ({"web": {"config": {"tls_server_config": {"min_version": "TLS10"}}}}, "min_version"),
        (
            {"web": {"config": {"tls_server_config": {"cert_file": "tls.crt", "key_file": "/tls.key"}}}},
            "name the Secret that has it",
        ),
        (
            {"web": {"config": {"tls_server_config": {"cert_file": "/tls.crt"}}}},
            "missing property 'key_file'",
        ),
        ({"web": {"config": {"tls_server_config": {"key": "x"}}}}, "missing property 'cert_file'"),
        ({"web": {"config": {"basic_auth_users": {"prometheus": "hunter2"}}}}, "does not match pattern"),
        ({"web": {"config": {"basic_auth_users": {}}}}, "minProperties"),
        (looking(namespaces=["*"]), "namespaces/0"),
        (looking(namespaces=["Bad Name"]), "namespaces/0"),
        (looking(namespaces=[""]), "namespaces/0"),
        (looking(namespaces=["${PLACE}"]), "name it, or set rbac.create and networkPolicy.enabled to false"),
        (looking(label_selector="app in (vllm"), "label_selector"),
        ({"mode": "sidecar", "config": {"policy": {"min_drafts": 5}}}, "sidecars is sidecar.config"),
        ({"sidecar": {"config": {"policy": {"min_drafts": 5}}}}, "fleet exporter is config"),
        ({"mode": "sidecar", "extraVolumes": [{"name": "ca"}]}, "sidecars is sidecar.extraVolumes"),
        (
            {"mode": "sidecar", "sidecar": {"extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}]}},
            "names ca, which is none of sidecar.extraVolumes",
        ),
        ({"mode": "sidecar", "sidecar": {"extraVolumes": [{"name": "spec-decode-exporter-x"}]}}, "'not'"),
        ({"mode": "sidecar", "replicaCount": 2}, "replicaCount is for mode: fleet"),
        ({"commonLabels": {"app.kubernetes.io/name": "x"}}, "propertyName 'app.kubernetes.io/name'"),
        ({"commonLabels": {"app.kubernetes.io/instance": "x"}}, "propertyName 'app.kubernetes.io/instance'"),
        ({"podLabels": {"app.kubernetes.io/name": "x"}}, "propertyName 'app.kubernetes.io/name'"),
        ({"podLabels": {"app.kubernetes.io/instance": "x"}}, "propertyName 'app.kubernetes.io/instance'"),
        ({"podDisruptionBudget": {"minAvailable": 1, "maxUnavailable": 1}}, "at '/podDisruptionBudget'"),
        ({"fullnameOverride": "a.b"}, "at '/fullnameOverride'"),
        ({"nameOverride": "a.b"}, "at '/nameOverride'"),
        ({"mode": "sidecar", "sidecar": {"name": "a.b"}}, "at '/sidecar/name'"),
        ({"web": {"scheme": "ftp"}}, "at '/web/scheme'"),
        ({"serviceMonitor": {"basicAuth": {"user": {}}}}, "'user' not allowed"),
    ],
)
def test_is_refused(refused, values, part):
    assert part in refused(values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replicas": 1}, "replicas is now replicaCount"),
        ({"mode": "sidecar", "replicas": 2}, "replicas is now replicaCount"),
        ({"image": {"pullSecrets": [{"name": "pull"}]}}, "image.pullSecrets is now imagePullSecrets"),
        ({"networkPolicy": {"from": []}}, "networkPolicy.from is now networkPolicy.ingressFrom"),
        ({"extraManifests": []}, "extraManifests is now extraObjects"),
        ({"serviceMonitor": {"labels": {}}}, "serviceMonitor.labels is now serviceMonitor.additionalLabels"),
        ({"podMonitor": {"labels": {}}}, "podMonitor.labels is now podMonitor.additionalLabels"),
        ({"prometheusRule": {"labels": {}}}, "prometheusRule.labels is now prometheusRule.additionalLabels"),
        (
            {"replicas": 2, "extraManifests": []},
            "extraManifests is now extraObjects; replicas is now replicaCount",
        ),
    ],
)
def test_an_old_name_is_refused_with_the_new_one(refused, values, message):
    assert f"renamed values: {message}" in refused(values)


def test_more_exporters_than_one_are_taken_with_shards(render):
    rendered = render({"replicaCount": 2, "sharding": {"enabled": True}})
    assert rendered.one("StatefulSet")["spec"]["replicas"] == 2
    assert not rendered.of("Deployment")


@pytest.mark.parametrize(
    "selector",
    ["", "app", "!app", "app=vllm", "app==", "example.org/app!=x", "a in (b, c),!d", "a notin (b), c > 5"],
)
def test_selectors_that_kubernetes_takes_are_taken(render, selector):
    config = render(looking(label_selector=selector)).one("ConfigMap")
    assert yaml.safe_load(config["data"]["exporter.yml"])["discovery"]["kubernetes"][0] == {
        "label_selector": selector,
        "namespaces": ["obs"],
    }


def test_a_namespace_may_be_a_variable_where_rights_are_made_elsewhere(render):
    assert render({**looking(namespaces=["${PLACE}"]), "rbac": {"create": False}})


def test_a_namespace_that_is_a_variable_has_no_network_policy_either(refused):
    values = {
        **looking(namespaces=["${PLACE}"]),
        "rbac": {"create": False},
        "networkPolicy": {"enabled": True},
    }
    assert "namespace ${PLACE}: no Role and no NetworkPolicy" in refused(values)


@pytest.mark.parametrize("version", ["v1.29.0", "v1.33.5"])
def test_injection_is_refused_where_kubernetes_has_no_such_policy(render, version):
    from helm_python.errors import HelmError

    with pytest.raises(HelmError, match="needs MutatingAdmissionPolicy") as caught:
        render("injection", kube_version=version)
    assert f"this is {version}: use the Kustomize component config/kustomize/sidecar" in str(caught.value)
