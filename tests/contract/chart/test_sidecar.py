"""The sidecar as people's own charts get it."""

import json
import re

import pytest

from spec_decode_exporter.config.load import IN_CHART
from tests.contract.chart.rendering import render, render_sidecar


def test_any_user_can_run_it():
    """OpenShift chooses the user, and refuses others."""
    pods = json.dumps([*render({"runAsUser": None}).pods(), render_sidecar({"runAsUser": None})])
    assert pods.count('"runAsNonRoot": true') >= 3
    assert not re.search("runAsUser|fsGroup", pods)
    given = json.dumps([*render({"runAsUser": 1000680000}).pods()])
    assert {*re.findall(r'"(?:runAsUser|runAsGroup|fsGroup)": (\d+)', given)} == {"1000680000"}


SPECULATION = '{"method": "eagle3", "num_speculative_tokens": 4}'
TARGET = {"SPEC_DECODE_EXPORTER_TARGET": "http://localhost:8000/metrics"}
SPECULATIVE = {"SPEC_DECODE_EXPORTER_SPECULATIVE_CONFIG": SPECULATION}
OWN = {"config": {"policy": {"min_drafts": 5}}}
TOLD = {"sidecar": {"speculativeConfig": SPECULATION}}


@pytest.mark.parametrize(
    ("values", "variables"),
    [
        ({}, TARGET),
        (TOLD, {**TARGET, **SPECULATIVE}),
        ({**OWN, "sidecar": {"targetPort": 8200}}, {"TARGET_PORT": "8200"}),
        ({**OWN, **TOLD}, {"TARGET_PORT": "8000", **SPECULATIVE}),
    ],
    ids=["no values", "vLLM's setting", "a configuration", "both"],
)
def test_it_is_a_native_sidecar_that_is_told_of_the_vllm_beside_it(values, variables):
    pod = render_sidecar(values)
    (sidecar,) = pod["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert {one["name"]: one.get("value") for one in sidecar["env"]} == {IN_CHART: "true", **variables}
    assert not {"readinessProbe", "startupProbe"} & set(sidecar)  # none of them counts for the pod
    assert sidecar["livenessProbe"]["httpGet"]["path"] == "/-/healthy"
    assert ("--config.auto-reload" in sidecar["args"]) == ("config" in values)
    assert {v["name"] for v in pod["volumes"]} == {m["name"] for m in sidecar["volumeMounts"]}


def test_its_configmap_has_the_name_that_the_pod_mounts_in_every_namespace():
    mounted = {v["configMap"]["name"] for v in render_sidecar(OWN)["volumes"] if "configMap" in v}
    assert {one["metadata"]["name"] for one in render({"mode": "sidecar", **OWN}).of("ConfigMap")} == mounted
    rendered = render("sidecar")
    configs = [one["metadata"] for one in rendered.of("ConfigMap") if "exporter.yml" in one["data"]]
    assert [one["namespace"] for one in configs] == ["inference", "research"]
    # The release runs nothing.
    assert {one["kind"] for one in rendered} == {"ConfigMap", "PodMonitor", "PrometheusRule"}
