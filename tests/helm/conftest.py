"""The chart is rendered by Helm's own engine, in this process. `make chart` installs what that needs."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

CHART = Path(__file__).parents[2] / "helm" / "spec-decode-exporter"
CASES = sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml"))
OPERATOR = [f"monitoring.coreos.com/v1/{kind}" for kind in ("ServiceMonitor", "PodMonitor", "PrometheusRule")]

NEEDED = ("helm_python", "kubernetes_validate")


def pytest_collection_modifyitems(items):
    missing = [name for name in NEEDED if find_spec(name) is None]
    why = f"NOT TESTED: the chart's tests need {', '.join(missing)}; `make chart` installs them"
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(240))
            if missing:
                item.add_marker(pytest.mark.skip(reason=why))


class _Loader(yaml.SafeLoader):
    """Reads a plain `=` as the text that it is to Kubernetes: YAML 1.1 has a type for it that nobody uses."""


_Loader.add_constructor("tag:yaml.org,2002:value", yaml.SafeLoader.construct_yaml_str)


class Rendered(list):
    """The objects of a rendering; ``text`` is what each template gave."""

    def __init__(self, texts):
        self.texts = texts
        manifests = (text for path, text in texts.items() if not path.endswith("NOTES.txt"))
        super().__init__(one for text in manifests for one in yaml.load_all(text, _Loader) if one)

    def of(self, kind):
        return [one for one in self if one["kind"] == kind]

    def one(self, kind):
        (found,) = self.of(kind)
        return found

    @property
    def notes(self):
        return next(text for path, text in self.texts.items() if path.endswith("NOTES.txt"))


def values_of(case):
    return yaml.safe_load((CHART / "ci" / f"{case}-values.yaml").read_text())


def render_chart(folder, values=None, kube_version="v1.36.0", **options):
    # The module's public method has no way to name the version of Kubernetes, or to be strict about names.
    from helm_python import Chart, _native

    settings = {"name": "rel", "namespace": "obs", "kube_version": kube_version, "strict": True, **options}
    chart = Chart.load(str(folder))
    asked = json.dumps(values or {}), json.dumps({**settings, "api_versions": OPERATOR})
    return Rendered(json.loads(_native.call_string("helm_render", chart._raw(), *asked)))


@pytest.fixture(scope="session")
def render():
    """Return the objects that the chart makes of values, or of the name of a case in ci/."""

    def rendered(values=None, **options):
        return render_chart(CHART, values_of(values) if isinstance(values, str) else values, **options)

    return rendered


@pytest.fixture(scope="session", params=CASES)
def case(request):
    return request.param


@pytest.fixture(scope="session")
def rendered(render, case):
    """Return the objects of every case in ci/, one after the other."""
    return render(case)


@pytest.fixture(scope="session")
def refused(render):
    """Return why values are refused."""
    from helm_python.errors import HelmError

    def why(values):
        with pytest.raises(HelmError) as caught:
            render(values)
        return str(caught.value)

    return why


OWN_CHART = """
apiVersion: v1
kind: Pod
metadata:
  name: vllm
spec:
  initContainers:
    {{- include "spec-decode-exporter.sidecar" (index .Subcharts "spec-decode-exporter") | nindent 4 }}
  volumes:
    {{- include "spec-decode-exporter.sidecarVolumes" (index .Subcharts "spec-decode-exporter") | nindent 4 }}
"""


@pytest.fixture
def render_sidecar(tmp_path):
    """Return the pod of a chart that has ours as a dependency and takes the sidecar from its templates."""

    def rendered(values=None):
        own = tmp_path / "own"
        (own / "templates").mkdir(parents=True, exist_ok=True)
        (own / "Chart.yaml").write_text("apiVersion: v2\nname: own\nversion: 1.0.0\n")
        (own / "templates" / "pod.yaml").write_text(OWN_CHART)
        shutil.copytree(CHART, own / "charts" / CHART.name, dirs_exist_ok=True)
        sub = {CHART.name: {"mode": "sidecar", **(values or {})}}
        return render_chart(own, sub).one("Pod")["spec"]

    return rendered
