"""The chart is installed, upgraded and uninstalled by Helm 3 and 4."""

from __future__ import annotations

import pytest

from helm.sync import CHART

FLEET = {
    "serviceMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "dashboards": {"enabled": True},
    "networkPolicy": {"enabled": True},
}
SIDECAR = {
    "mode": "sidecar",
    "podMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "sidecar": {"config": {"policy": {"min_drafts": 500}}},
}
KINDS = ("deploy", "statefulset", "service", "role", "podmonitor", "servicemonitor", "prometheusrule")


def there(cluster, namespace):
    return {kind for kind in KINDS if cluster.get(kind, namespace)}


def test_fleet_mode_is_installed_upgraded_to_shards_and_removed(helm, cluster, namespace):
    place = namespace()
    helm("install", "one", chart=str(CHART), namespace=place, values=FLEET)
    assert there(cluster, place) == {"deploy", "service", "role", "servicemonitor", "prometheusrule"}
    shards = {**FLEET, "replicas": 3, "sharding": {"enabled": True}}
    helm("upgrade", "one", chart=str(CHART), namespace=place, values=shards)
    assert there(cluster, place) == {"statefulset", "service", "role", "servicemonitor", "prometheusrule"}
    (config,) = [one for one in cluster.get("configmap", place).values() if "exporter.yml" in one["data"]]
    assert "count: 3" in config["data"]["exporter.yml"]
    helm("uninstall", "one", namespace=place)
    assert there(cluster, place) == set()


def test_sidecar_mode_is_installed_and_removed(helm, cluster, namespace):
    place = namespace()
    helm("install", "one", chart=str(CHART), namespace=place, values=SIDECAR)
    assert there(cluster, place) == {"podmonitor", "prometheusrule"}
    helm("uninstall", "one", namespace=place)
    assert there(cluster, place) == set()


def test_a_kubernetes_that_is_too_old_is_refused(helm):
    with pytest.raises(ValueError, match="kubeVersion"):
        helm("template", "one", chart=str(CHART), kube_version="1.28.0")


def test_values_that_are_not_known_are_refused(helm, namespace):
    with pytest.raises(ValueError, match="replica"):
        helm("install", "one", chart=str(CHART), namespace=namespace(), values={"replica": 2})


def test_the_exporter_may_look_at_pods_where_it_is_told_to_and_nothing_else(render, cluster, namespace):
    home, watched, other = namespace(), namespace(), namespace()
    config = {"discovery": {"kubernetes": [{"namespaces": [watched]}]}}
    cluster.apply(*render({"config": config}, namespace=home))
    account = f"{home}:rel-spec-decode-exporter"
    for verb in ("list", "watch"):
        assert cluster.may(account, verb, "pods", watched)
        assert not cluster.may(account, verb, "pods", home)
        assert not cluster.may(account, verb, "pods", other)
        assert not cluster.may(account, verb, "secrets", watched)
    for verb in ("get", "create", "delete", "patch", "update"):
        assert not cluster.may(account, verb, "pods", watched)
