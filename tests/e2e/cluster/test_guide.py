"""The guide to Kubernetes, walked: what the chart makes of its values, in a real API, with the program that it starts.

There are no nodes, no operator and no image: the tests start the installed program as the pod says, and Prometheus as
the monitor says, and say themselves that a pod runs. Who may look at what is decided by the chart's own Role.
"""

import json
import re

import pytest
import yaml

from helm.chart_files import CHART
from tests.contract.chart.rendering import TEXT

from .conftest import Helm

NAME = "spec-decode-exporter"
SPECULATION = {"method": "eagle3", "num_speculative_tokens": 3}


def block(mark):
    """Return the block of the document whose text begins with, or follows, a mark."""
    found = re.search(rf"(?:```yaml\n{mark}|{mark}\n```yaml\n)(.*?)```", TEXT, re.DOTALL)[1]
    return re.sub(r"<[a-z ]*>", "example", found)


def run_container(start, e2e, container, mounts):
    """Run the installed program as a container does; ``mounts`` say where its folders are here."""
    words = [word for word in container["args"] if not word.startswith("--web.listen-address")]
    for there, here in mounts.items():
        words = [word.replace(there, str(here)) for word in words]
    port = e2e.free_port()
    command = [e2e.PROGRAM, *words, f"--web.listen-address=127.0.0.1:{port}"]
    environ = {one["name"]: one["value"] for one in container.get("env", ())}
    exporter = start(lambda folder: e2e.Running(container["name"], command, folder, **environ))
    exporter.url = f"http://127.0.0.1:{port}"
    return exporter


@pytest.fixture(scope="module", autouse=True)
def installed(cluster):
    """Install the chart for a fleet and for sidecars, as the document says."""
    if not cluster.folder:
        pytest.skip("NOT TESTED: in a cluster with nodes, no test says that a pod runs")
    helm = Helm("v4", cluster.kubeconfig)
    for namespace, mark in (("inference", "# sidecar.yaml"), ("monitoring", "# fleet.yaml")):
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        helm("install", NAME, chart=str(CHART), namespace=namespace, values=yaml.safe_load(block(mark)))


@pytest.fixture(scope="module")
def drill(cluster, start, e2e):
    """The stand-in vLLM of the document, in a pod of the document."""
    pod = yaml.safe_load(block("<!-- drill -->"))
    words = pod["spec"]["containers"][0]["args"]
    assert words[:2] == ["simulate", "--scenario"]
    server = start(e2e.Simulator, words[2])
    server.wait_for(server.url)
    # The document's port is that of everyone on this machine.
    pod["metadata"]["annotations"] = {"prometheus.io/port": str(server.port)}
    cluster.apply(pod)
    cluster.set_status("drill", pod["metadata"]["namespace"], phase="Running", podIP="127.0.0.1")
    return server


@pytest.fixture(scope="module")
def exporter(cluster, start, e2e, drill, tmp_path_factory):
    """The program of the chart's Deployment, with its ConfigMap, and with what a pod knows of its API by itself."""
    config = yaml.safe_load(cluster.get("configmap", "monitoring")[NAME]["data"]["exporter.yml"])
    for way in config["discovery"]["kubernetes"]:
        address = "--output=jsonpath={.clusters[0].cluster.server}"
        way["api_server"] = cluster.run("config", "view", address).stdout
        way["authorization"] = {"credentials_file": str(cluster.folder / "token")}
        way["tls_config"] = {"ca_file": str(cluster.folder / "ca.crt")}
    folder, state = tmp_path_factory.mktemp("pod"), tmp_path_factory.mktemp("state")
    (folder / "exporter.yml").write_text(json.dumps(config))
    deployment = cluster.get("deployment", "monitoring")[NAME]["spec"]
    (container,) = deployment["template"]["spec"]["containers"]
    mounts = {"/etc/spec-decode-exporter": folder, "/var/lib/spec-decode-exporter": state}
    exporter = run_container(start, e2e, container, mounts)
    exporter.wait_for(f"{exporter.url}{container['readinessProbe']['httpGet']['path']}")
    return exporter


@pytest.fixture(scope="module")
def prometheus(cluster, start, e2e, exporter, drill, tmp_path_factory, prometheus_tools):
    """A Prometheus that does what the operator would have it do for the ServiceMonitor and the PrometheusRule."""
    rules = tmp_path_factory.mktemp("rules") / "rules.yml"
    rules.write_text(yaml.safe_dump(cluster.get("prometheusrule", "monitoring")[NAME]["spec"]))
    (endpoint,) = cluster.get("servicemonitor", "monitoring")[NAME]["spec"]["endpoints"]
    own = {"namespace": "monitoring", "pod": "spec-decode-exporter-0", "service": "spec-decode-exporter"}
    vllm = {"namespace": "inference", "pod": "drill"}
    jobs = [("exporter", exporter, own, endpoint["honorLabels"]), ("vllm", drill, vllm, False)]
    scraped = [
        {
            "job_name": job,
            "honor_labels": honor,
            "static_configs": [{"targets": [server.url.split("/")[2]], "labels": labels}],
        }
        for job, server, labels, honor in jobs
    ]
    often = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config = {"global": often, "rule_files": [str(rules)], "scrape_configs": scraped}
    prometheus = start(e2e.Prometheus, config=config)
    prometheus.wait_for(f"{prometheus.url}/-/ready")
    return prometheus


def test_the_exporter_finds_the_pod_with_the_rights_that_the_chart_gives_it(exporter, e2e):
    up = 'spec_decode_exporter_target_up{namespace="inference",pod="drill",target="inference/drill"} 1.0'
    e2e.eventually(lambda: up in e2e.fetch(f"{exporter.url}/metrics")[2])
    assert "discovery_failed" not in exporter.log


def test_the_rules_of_the_chart_are_taken_and_none_fails(prometheus, e2e):
    rules = f"{prometheus.url}/api/v1/rules"
    e2e.eventually(lambda: set(re.findall(r'"health":"(\w+)"', e2e.fetch(rules)[2])) == {"ok"})


def test_the_series_join_with_those_of_vllm_and_what_is_the_exporter_s_own_has_its_own_pod(prometheus, e2e):
    running = "(vllm:num_requests_running or vllm_num_requests_running)"  # Prometheus 2 writes it so
    query = f"spec_decode_acceptance_length_tokens * on (namespace, pod, model_name, engine) group_left () {running}"
    found = e2e.eventually(lambda: prometheus.query(query))
    assert {(labels["namespace"], labels["pod"]) for labels, _ in found} == {("inference", "drill")}
    ((labels, _),) = e2e.eventually(lambda: prometheus.query("spec_decode_exporter_build_info"))
    assert labels["namespace"] == "monitoring"


def test_the_sidecar_of_the_document_watches_its_vllm_and_knows_how_it_speculates(
    cluster, start, e2e, tmp_path
):
    server = start(e2e.Simulator, "steady", name="vllm")
    server.wait_for(server.url)
    (sidecar,) = yaml.safe_load(block("<!-- container -->"))["initContainers"]
    (target,) = [one for one in sidecar["env"] if one["name"] == "SPEC_DECODE_EXPORTER_TARGET"]
    target["value"] = target["value"].replace(":8000", f":{server.port}")
    variable = "SPEC_DECODE_EXPORTER_SPECULATIVE_CONFIG"
    assert f"`{variable}`" in TEXT
    sidecar["env"].append({"name": variable, "value": json.dumps(SPECULATION)})
    monitor = cluster.get("podmonitor", "inference")[NAME]["spec"]
    assert monitor["namespaceSelector"] == {"matchNames": ["inference"]}
    assert monitor["podMetricsEndpoints"][0]["port"] in {port["name"] for port in sidecar["ports"]}
    exporter = run_container(start, e2e, sidecar, {"/var/lib/spec-decode-exporter": tmp_path})
    exporter.wait_for(f"{exporter.url}{sidecar['livenessProbe']['httpGet']['path']}")
    up = re.compile(r"^spec_decode_exporter_target_up\{.*\} 1\.0$", re.MULTILINE)
    url = f"{exporter.url}/metrics"
    e2e.eventually(lambda: 'method="eagle3"' in (page := e2e.fetch(url)[2]) and up.search(page))
