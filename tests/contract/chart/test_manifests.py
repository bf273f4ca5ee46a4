"""Every object that the chart makes, for every case in ci/: valid, safe, and named as it must be."""

import re

import pytest
from hypothesis import given, settings, strategies

from spec_decode_exporter import __version__
from tests.contract.chart.custom_resources import RESOURCES, schema_of
from tests.contract.chart.rendering import WORKLOADS, after, each_case, render
from tests.contract.integrations.shipped import SCALED_OBJECT

VERSIONS = ["1.29", "1.36"]  # the oldest that the chart takes, and the newest that is known


@pytest.mark.parametrize("version", VERSIONS)
@each_case
def test_every_object_is_what_kubernetes_takes(case, version):
    import kubernetes_validate

    for one in render(case, kube_version=f"v{version}.0"):
        if one["kind"] not in RESOURCES:
            kubernetes_validate.validate(one, version, strict=True)


@each_case
def test_every_object_is_what_the_operator_takes(case):
    import jsonschema

    for one in render(case):
        if one["kind"] in RESOURCES:
            jsonschema.validate(one, schema_of(one["kind"]))


@each_case
def test_names_are_unique_those_of_dns_and_of_the_whole_cluster_only_if_asked_for(case):
    rendered = render(case)
    names = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in rendered]
    assert len(names) == len(set(names))
    whole = {kind for kind, namespace, _ in names if namespace is None}
    assert whole == ({"ClusterRole", "ClusterRoleBinding"} if case == "shards" else set())
    assert not {one["metadata"]["name"] for one in render(case, name="other")} & {name for *_, name in names}
    for one in (*rendered, *render("shards", name="a" * 53)):
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", one["metadata"]["name"])


TRIGGER = {"serverAddress", "query", "threshold", "ignoreNullValues"}
"""Used parameters of KEDA's scaler `prometheus` (kedacore/keda, schema/generated/scalers-schema.yaml, commit 8b4f083ca)."""


def test_the_scaled_object_of_the_guide_is_what_keda_takes():
    import jsonschema

    jsonschema.validate(SCALED_OBJECT, schema_of("ScaledObject"))
    assert (SCALED_OBJECT["apiVersion"], SCALED_OBJECT["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    assert SCALED_OBJECT["spec"]["triggers"]
    for trigger in SCALED_OBJECT["spec"]["triggers"]:
        assert trigger["type"] == "prometheus"
        assert set(trigger["metadata"]) == TRIGGER
        assert trigger["metricType"] in {"AverageValue", "Value"}


RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
VOLUMES = {"configMap", "emptyDir", "persistentVolumeClaim", "projected", "secret"}


@each_case
def test_every_pod_may_run_where_pod_security_restricted_is_enforced(case):
    """The guide's container and the one of Kustomize equal the chart's."""
    for pod in [*render(case).pods(), after("drill")["spec"]]:
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        assert {kind for volume in pod.get("volumes", ()) for kind in volume} <= VOLUMES | {"name"}
        for container in pod["containers"]:
            assert RESTRICTED.items() <= container["securityContext"].items()
            assert not any("hostPort" in port for port in container.get("ports", ()))


@each_case
def test_ports_of_probes_and_mounted_volumes_are_there(case):
    rendered = render(case)
    claims = {
        claim["metadata"]["name"]
        for workload in rendered.of("StatefulSet")
        for claim in workload["spec"].get("volumeClaimTemplates", ())
    }
    for pod in rendered.pods():
        volumes = claims | {volume["name"] for volume in pod.get("volumes", ())}
        for container in pod["containers"]:
            assert {mount["name"] for mount in container.get("volumeMounts", ())} <= volumes
            ports = {port["name"] for port in container.get("ports", ())}
            assert all(len(name) <= 15 for name in ports)
            for probe in (container.get("livenessProbe"), container.get("readinessProbe")):
                assert not probe or (probe.get("httpGet") or probe["tcpSocket"])["port"] in ports


@pytest.mark.parametrize("case", ["fleet", "shards"])
def test_the_service_finds_the_exporter_and_nothing_else(case):
    rendered = render(case)
    selector = rendered.one("Service")["spec"]["selector"].items()
    assert selector <= rendered.one(*WORKLOADS)["spec"]["template"]["metadata"]["labels"].items()
    assert not selector <= rendered.one("Pod")["metadata"]["labels"].items()
    monitored = rendered.one("ServiceMonitor")["spec"]["selector"]["matchLabels"].items()
    assert monitored <= rendered.one("Service")["metadata"]["labels"].items()


@settings(max_examples=40, deadline=None)
@given(text=strategies.text(strategies.characters(codec="utf-8", exclude_categories=("Cc", "Cs"))))
def test_any_text_comes_out_as_it_went_in(text):
    values = {"podAnnotations": {"note": text}, "extraEnv": [{"name": "TEXT", "value": text}]}
    template = render(values).one("Deployment")["spec"]["template"]
    assert template["metadata"]["annotations"] == {"note": text}
    assert template["spec"]["containers"][0]["env"][1:] == [{"name": "TEXT", "value": text}]


PART_OF = {"app.kubernetes.io/part-of": "inference"}


@pytest.mark.parametrize(
    ("values", "label"), [("shards", {"team": "serving"}), ({"commonLabels": PART_OF}, PART_OF)]
)
def test_common_labels_are_on_everything_and_go_before_the_chart_s_own(values, label):
    assert all(label.items() <= one["metadata"]["labels"].items() for one in render(values))


DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("values", "reference"),
    [
        ({}, f"spec-decode-exporter:{__version__}"),
        ("shards", "registry.example.org/spec-decode-exporter:1.2.3"),
        ({"image": {"tag": "2.0.0"}}, "spec-decode-exporter:2.0.0"),
        ({"image": {"digest": DIGEST, "tag": "2.0.0"}}, f"spec-decode-exporter@{DIGEST}"),
        ({"image": {"registry": "r.example.org", "repository": "team/x"}}, f"r.example.org/team/x:{__version__}"),
    ],
)  # fmt: skip
def test_every_image_is_made_of_its_values_and_none_names_a_registry_by_itself(values, reference):
    assert {c["image"] for pod in render(values).pods() for c in pod["containers"]} == {reference}
