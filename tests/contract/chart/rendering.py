"""The chart, rendered by Helm's own engine in this process, each rendering once; and the guide's pages about it."""

import json
import re
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

from tests.paths import CHECKOUT

CHART = CHECKOUT / "helm" / "spec-decode-exporter"
WORKLOADS = ("Deployment", "StatefulSet")
OPERATOR = [f"monitoring.coreos.com/v1/{kind}" for kind in ("ServiceMonitor", "PodMonitor", "PrometheusRule")]
CASES = {
    path.name.removesuffix("-values.yaml"): yaml.safe_load(path.read_text())
    for path in sorted((CHART / "ci").glob("*-values.yaml"))
}
"""Values of each case in ci/."""
each_case = pytest.mark.parametrize("case", CASES)

ON = {"mode": "sidecar", "config": {"requests": {"ingest": True}}, "sidecar": {"middleware": True}}
"""Values by which vLLM tells its sidecar of requests."""


TEXT = "\n".join(
    (CHECKOUT / "docs/guide" / name).read_text(encoding="utf-8")
    for name in ("kubernetes.md", "kubernetes-sidecar.md")
)
"""Of the guide: deploying, and installing as a sidecar."""


def after(mark):
    """Return the snippet of YAML after a mark of the guide."""
    return yaml.safe_load(re.search(rf"<!-- {mark} -->\n```yaml\n(.*?)```", TEXT, re.DOTALL)[1])


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Loader that reads a plain `=` as text, as Kubernetes does; YAML 1.1 has a type for it."""


_Loader.add_constructor("tag:yaml.org,2002:value", yaml.SafeLoader.construct_yaml_str)


class Rendered(list):
    """The objects of a rendering."""

    def __init__(self, texts):
        self.notes = next((text for path, text in texts.items() if path.endswith("NOTES.txt")), "")
        manifests = (text for path, text in texts.items() if not path.endswith("NOTES.txt"))
        super().__init__(one for text in manifests for one in yaml.load_all(text, _Loader) if one)

    def of(self, *kinds):
        return [one for one in self if one["kind"] in kinds]

    def one(self, *kinds):
        (found,) = self.of(*kinds)
        return found

    def pods(self):
        """Yield the specs of all pods, those of workloads and that of the test."""
        for one in self:
            if one["kind"] == "Pod":
                yield one["spec"]
            elif one["kind"] in WORKLOADS:
                yield one["spec"]["template"]["spec"]

    def container(self):
        """Return the container of the exporter."""
        return self.one(*WORKLOADS)["spec"]["template"]["spec"]["containers"][0]

    def endpoint(self):
        """Return what Prometheus scrapes by the only monitor."""
        monitor = self.one("ServiceMonitor", "PodMonitor")
        (found,) = monitor["spec"].get("endpoints") or monitor["spec"]["podMetricsEndpoints"]
        return found

    def config(self):
        """Return the exporter's configuration, as text."""
        return next(
            one["data"]["exporter.yml"] for one in self.of("ConfigMap") if "exporter.yml" in one["data"]
        )


def render_chart(folder, values=None, kube_version="v1.36.0", **options):
    settings = {"name": "rel", "namespace": "obs", "kube_version": kube_version, "strict": True, **options}
    asked = json.dumps(values or {}), json.dumps({**settings, "api_versions": OPERATOR})
    return (_rendered if folder == CHART else _rendered.__wrapped__)(str(folder), *asked)


@cache
def _rendered(folder, values, settings):
    # The module's public method has no way to name the version of Kubernetes, or to be strict about names.
    from helm_python import Chart, _native

    chart = Chart.load(folder)  # it is freed with its last reference
    return Rendered(json.loads(_native.call_string("helm_render", chart._raw(), values, settings)))


def render(values=None, **options):
    """Return the objects of values, or of the name of a case in ci/; in fleet mode if none is named."""
    own = CASES[values] if isinstance(values, str) else {"mode": "fleet", **(values or {})}
    return render_chart(CHART, own, **options)


def include(name, indent):
    return f'{{{{- include "{CHART.name}.{name}" (index .Subcharts "{CHART.name}") | nindent {indent} }}}}'


SIDECAR = f"""
apiVersion: v1
kind: Pod
metadata: {{name: vllm}}
spec:
  initContainers:
    {include("sidecar", 4)}
  volumes:
    {include("sidecarVolumes", 4)}
"""
MIDDLEWARE = f"""
apiVersion: v1
kind: Pod
metadata: {{name: vllm}}
spec:
  containers:
    - name: vllm
      env:
        {include("middlewareEnv", 8)}
      volumeMounts:
        {include("middlewareVolumeMounts", 8)}
  volumes:
    {include("middlewareVolumes", 4)}
"""


def render_own(pod, values=None):
    """Return the objects of a chart that has ours as a dependency and takes parts of a pod from its templates."""
    with TemporaryDirectory() as folder:
        own = Path(folder)
        (own / "templates").mkdir()
        (own / "Chart.yaml").write_text("apiVersion: v2\nname: own\nversion: 1.0.0\n")
        (own / "templates" / "pod.yaml").write_text(pod)
        shutil.copytree(CHART, own / "charts" / CHART.name)
        return render_chart(own, {CHART.name: {"mode": "sidecar", **(values or {})}})


def render_sidecar(values=None):
    """Return the pod of a chart that takes the sidecar from our templates."""
    return render_own(SIDECAR, values).one("Pod")["spec"]
