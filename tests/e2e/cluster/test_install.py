"""The chart is installed, upgraded and uninstalled by Helm 3 and 4."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from helm.chart_files import CHART

from .conftest import eventually

MONITORED = {
    "monitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "dashboards": {"enabled": True},
}
FLEET = {"mode": "fleet", **MONITORED}
SIDECAR = {"mode": "sidecar", **MONITORED, "config": {"policy": {"min_drafts": 500}}}
KINDS = ("deploy", "statefulset", "service", "role", "podmonitor", "servicemonitor", "prometheusrule")


def there(cluster, namespace):
    return {kind for kind in KINDS if cluster.get(kind, namespace)}


def only(cluster, place, names):
    """Wait until these objects are there and no others: what is deleted may be collected later."""
    eventually(lambda: cluster.everything(place) == names)


def test_fleet_mode_is_installed_upgraded_to_shards_and_removed(helm, cluster, namespace):
    place = namespace()
    before = cluster.everything(place)
    helm("install", "one", chart=str(CHART), namespace=place, values=FLEET)
    assert there(cluster, place) == {"deploy", "service", "role", "servicemonitor", "prometheusrule"}
    shards = {**FLEET, "replicaCount": 3}
    helm("upgrade", "one", chart=str(CHART), namespace=place, values=shards)
    assert there(cluster, place) == {"statefulset", "service", "role", "servicemonitor", "prometheusrule"}
    (config,) = [one for one in cluster.get("configmap", place).values() if "exporter.yml" in one["data"]]
    assert "count: 3" in config["data"]["exporter.yml"]
    helm("uninstall", "one", namespace=place)
    only(cluster, place, before)


def test_sidecar_mode_is_installed_upgraded_and_removed(helm, cluster, namespace):
    place = namespace()
    before = cluster.everything(place)
    helm("install", "one", chart=str(CHART), namespace=place, values=SIDECAR)
    assert there(cluster, place) == {"podmonitor", "prometheusrule"}
    requests = {**SIDECAR, "config": {"requests": {"ingest": True}}, "sidecar": {"middleware": True}}
    helm("upgrade", "one", chart=str(CHART), namespace=place, values=requests)
    assert "one-spec-decode-exporter-middleware" in cluster.get("configmap", place)
    helm("uninstall", "one", namespace=place)
    only(cluster, place, before)


def test_what_helm_3_installed_helm_4_upgrades_and_removes(helm_of, cluster, namespace):
    place = namespace()
    before = cluster.everything(place)
    helm_of("v3")("install", "one", chart=str(CHART), namespace=place, values=FLEET)
    resources = {"resources": {"requests": {"cpu": "100m"}}}
    helm_of("v4")("upgrade", "one", chart=str(CHART), namespace=place, values={**FLEET, **resources})
    (deployment,) = cluster.get("deploy", place).values()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"]["cpu"] == "100m"
    helm_of("v4")("uninstall", "one", namespace=place)
    only(cluster, place, before)


def test_two_releases_in_one_namespace_do_not_touch_each_other(helm, cluster, namespace):
    place = namespace()
    helm("install", "one", chart=str(CHART), namespace=place, values=FLEET)
    one = cluster.everything(place)
    helm("install", "two", chart=str(CHART), namespace=place, values=FLEET)
    helm("uninstall", "two", namespace=place)
    only(cluster, place, one)
    helm("uninstall", "one", namespace=place)


def test_helm_test_runs_its_pod_and_removes_it(helm, cluster, namespace):
    """No node can have its image: the test says that it succeeded. tests/contract/chart/test_page.py runs its command."""
    place, name = namespace(), "one-spec-decode-exporter-test"
    helm("install", "one", chart=str(CHART), namespace=place, values={"mode": "fleet"})
    with ThreadPoolExecutor(1) as background:
        told = background.submit(helm, "test", "one", namespace=place, timeout="300s")
        eventually(lambda: name in cluster.get("pod", place))
        done = '{"status": {"phase": "Succeeded"}}'
        words = ("--subresource=status", "--type=merge", f"--patch={done}", f"--namespace={place}")
        cluster.run("patch", "pod", name, *words)
        assert told.result()
    eventually(lambda: name not in cluster.get("pod", place))
    helm("uninstall", "one", namespace=place)


def test_a_kubernetes_that_is_too_old_is_refused(helm):
    with pytest.raises(ValueError, match="kubeVersion"):
        helm("template", "one", chart=str(CHART), kube_version="1.28.0")


def test_the_exporter_may_look_at_pods_where_it_is_told_to_and_nothing_else(render, cluster, namespace):
    home, watched, other = namespace(), namespace(), namespace()
    account = f"{home}:rel-spec-decode-exporter"
    everybody = cluster.allowed(f"{home}:another", (home, watched, other))
    config = {"discovery": {"kubernetes": [{"namespaces": [watched]}]}}
    cluster.apply(*render({"config": config}, namespace=home))
    pods = {(watched, "list", "pods"), (watched, "watch", "pods")}
    assert cluster.allowed(account, (home, watched, other)) - everybody == pods


def test_all_namespaces_are_a_right_to_pods_alone_too(render, cluster, namespace):
    home, other = namespace(), namespace()
    everybody = cluster.allowed(f"{home}:another", (home, other))
    config = {"discovery": {"kubernetes": [{"all_namespaces": True}]}}
    rendered = render({"config": config}, namespace=home)
    cluster.apply(*rendered)
    try:
        rights = cluster.allowed(f"{home}:rel-spec-decode-exporter", (home, other)) - everybody
    finally:
        name = rendered.one("ClusterRole")["metadata"]["name"]
        cluster.run("delete", "clusterrole,clusterrolebinding", name)
    assert rights == {(place, verb, "pods") for place in (home, other) for verb in ("list", "watch")}


def test_without_discovery_of_pods_there_are_no_rights(render, cluster, namespace):
    home = namespace()
    everybody = cluster.allowed(f"{home}:another", (home,))
    cluster.apply(*render("static", namespace=home))
    assert cluster.allowed(f"{home}:rel-spec-decode-exporter", (home,)) == everybody
