"""The sidecar as people's own charts get it."""

from __future__ import annotations

import json
import re

AUTHORITY = {
    "extraVolumes": [{"name": "authority", "secret": {"secretName": "ca", "defaultMode": 292}}],
    "extraVolumeMounts": [{"name": "authority", "mountPath": "/etc/authority", "readOnly": True}],
}
SPECULATION = '{"method": "eagle3", "num_speculative_tokens": 4}'


def environment(container):
    return {one["name"]: one.get("value") for one in container["env"]}


def test_any_user_can_run_it(render, render_sidecar):
    """OpenShift chooses the user, and refuses others."""
    pods = [*render({"runAsUser": None}).pods(), render_sidecar({"runAsUser": None})]
    assert len(pods) == 3
    assert "runAsUser" not in json.dumps(pods)
    assert "fsGroup" not in json.dumps(pods)
    given = json.dumps([*render({"runAsUser": 1000680000}).pods()])
    assert {*re.findall(r'"(?:runAsUser|runAsGroup|fsGroup)": (\d+)', given)} == {"1000680000"}


def test_it_is_a_native_sidecar_that_watches_the_vllm_beside_it(render_sidecar):
    (sidecar,) = render_sidecar()["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert environment(sidecar) == {"SPEC_DECODE_EXPORTER_TARGET": "http://localhost:8000/metrics"}


def test_no_probe_of_it_counts_for_the_pod(render_sidecar):
    (sidecar,) = render_sidecar()["initContainers"]
    assert "readinessProbe" not in sidecar
    assert "startupProbe" not in sidecar
    assert sidecar["livenessProbe"]["httpGet"]["path"] == "/-/healthy"


def test_it_is_told_how_its_vllm_speculates(render_sidecar):
    (sidecar,) = render_sidecar({"sidecar": {"speculativeConfig": SPECULATION}})["initContainers"]
    assert environment(sidecar)["SPEC_DECODE_EXPORTER_SPECULATIVE_CONFIG"] == SPECULATION


def test_a_configuration_of_its_own_is_mounted_and_read_again(render_sidecar):
    pod = render_sidecar({"config": {"policy": {"min_drafts": 5}}, "sidecar": {"targetPort": 8200}})
    (sidecar,) = pod["initContainers"]
    assert "--config.auto-reload" in sidecar["args"]
    assert environment(sidecar) == {"TARGET_PORT": "8200"}
    assert {v["name"] for v in pod["volumes"]} == {m["name"] for m in sidecar["volumeMounts"]}


def test_beside_a_configuration_of_its_own_it_is_told_how_its_vllm_speculates(render_sidecar):
    own = {"config": {"policy": {"min_drafts": 5}}, "sidecar": {"speculativeConfig": SPECULATION}}
    (sidecar,) = render_sidecar(own)["initContainers"]
    told = "SPEC_DECODE_EXPORTER_SPECULATIVE_CONFIG"
    assert environment(sidecar) == {"TARGET_PORT": "8000", told: SPECULATION}


def test_a_file_that_its_configuration_names_can_be_mounted(render_sidecar):
    pod = render_sidecar(AUTHORITY)
    (sidecar,) = pod["initContainers"]
    assert sidecar["volumeMounts"][-1:] == AUTHORITY["extraVolumeMounts"]
    assert pod["volumes"][-1:] == AUTHORITY["extraVolumes"]


def test_its_configmap_has_the_name_that_the_pod_mounts(render, render_sidecar):
    pod = render_sidecar({"config": {"policy": {"min_drafts": 5}}})
    (mounted,) = [v["configMap"]["name"] for v in pod["volumes"] if "configMap" in v]
    rendered = render({"mode": "sidecar", "config": {"policy": {"min_drafts": 5}}})
    assert rendered.one("ConfigMap")["metadata"]["name"] == mounted


def test_its_configmap_is_in_every_namespace_of_the_pods(render):
    rendered = render("sidecar")
    assert [
        one["metadata"]["namespace"] for one in rendered.of("ConfigMap") if "exporter.yml" in one["data"]
    ] == [
        "inference",
        "research",
    ]


def test_sidecar_mode_runs_nothing_of_its_own(render):
    kinds = {one["kind"] for one in render("sidecar")}
    assert kinds == {"ConfigMap", "PodMonitor", "PrometheusRule"}
