"""The chart is installed, upgraded and uninstalled by Helm 3 and 4."""

import re
import shlex
from concurrent.futures import ThreadPoolExecutor

import pytest

from helm.chart_files import CHART
from spec_decode_exporter import __version__
from spec_decode_exporter.cli.main import parse
from tests.e2e.conftest import eventually
from tests.paths import CHECKOUT

MONITORED = {
    "monitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "dashboards": {"enabled": True},
}
FLEET = {"mode": "fleet", **MONITORED}
SIDECAR = {"mode": "sidecar", **MONITORED, "config": {"policy": {"min_drafts": 500}}}
MIDDLEWARE = {**SIDECAR, "config": {"requests": {"ingest": True}}, "sidecar": {"middleware": True}}
MONITORING = {"servicemonitor", "prometheusrule"}
KINDS = ("deploy", "statefulset", "service", "role", "podmonitor", *MONITORING)


@pytest.mark.parametrize(
    ("values", "kinds", "upgraded", "changed", "name"),
    [
        (FLEET, {"deploy", "service", "role", *MONITORING}, {**FLEET, "replicaCount": 3}, {"statefulset", "service", "role", *MONITORING}, "one-spec-decode-exporter"),
        (SIDECAR, {"podmonitor", "prometheusrule"}, MIDDLEWARE, {"podmonitor", "prometheusrule"}, "one-spec-decode-exporter-middleware"),
    ],
    ids=["fleet to shards", "sidecar to middleware"],
)  # fmt: skip
def test_a_release_is_installed_upgraded_and_removed_without_a_trace(
    helm, cluster, namespace, values, kinds, upgraded, changed, name
):
    before = cluster.everything(namespace)
    helm("install", "one", chart=str(CHART), namespace=namespace, values=values)
    assert {kind for kind in KINDS if cluster.get(kind, namespace)} == kinds
    helm("upgrade", "one", chart=str(CHART), namespace=namespace, values=upgraded)
    assert {kind for kind in KINDS if cluster.get(kind, namespace)} == changed
    assert name in cluster.get("configmap", namespace)
    helm("uninstall", "one", namespace=namespace)
    # What is deleted may be collected later.
    eventually(lambda: cluster.everything(namespace) == before)


def test_helm_test_runs_its_pod_and_removes_it(helm, cluster, namespace):
    """No node runs its image: the test sets that it succeeded."""
    name = "one-spec-decode-exporter-test"
    helm("install", "one", chart=str(CHART), namespace=namespace, values={"mode": "fleet"})
    with ThreadPoolExecutor(1) as background:
        told = background.submit(helm, "test", "one", namespace=namespace, timeout="300s")
        eventually(lambda: name in cluster.get("pod", namespace))
        cluster.set_status(name, namespace, phase="Succeeded")
        assert told.result()
    eventually(lambda: name not in cluster.get("pod", namespace))
    helm("uninstall", "one", namespace=namespace)


def test_the_command_of_the_readme_is_a_pod_that_observes_once_and_is_never_restarted(cluster, namespace):
    """kubectl returns the exit status of an attached container only without restarts."""
    text = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\$ (kubectl run .*)", text, re.MULTILINE)
    words = shlex.split(line.replace("<your registry>", "r.example.org"))[1:]
    assert {"--rm", "--attach", "--restart=Never"} <= set(words)
    words = [word for word in words if word not in {"--rm", "--attach"}]
    at = words.index("--")
    cluster.run(*words[:at], f"--namespace={namespace}", *words[at:])
    spec = cluster.get("pod", namespace)["observe"]["spec"]
    (container,) = spec["containers"]
    assert spec["restartPolicy"] == "Never"
    assert "command" not in container, "the image's entry point is the program"
    assert container["image"] == f"r.example.org/spec-decode-exporter:{__version__}"
    assert parse(container["args"], {}).urls == ["http://vllm:8000"]
