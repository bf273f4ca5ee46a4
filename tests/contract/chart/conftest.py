"""The chart is rendered by Helm's own engine, in this process. `make chart` installs what that needs."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from helm import chart_files
from tests.contract.chart import rendering
from tests.contract.chart.rendering import CASES, CHART, render_chart

NEEDED = ("helm_python", "kubernetes_validate")


def pytest_collection_modifyitems(items):
    missing = [name for name in NEEDED if find_spec(name) is None]
    why = f"NOT TESTED: the chart's tests need {', '.join(missing)}; `make chart` installs them"
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(600))
            if missing:
                item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session", autouse=True)
def _chart_files():
    """Make the chart complete, as its package is."""
    chart_files.write_copies()


@pytest.fixture(scope="session")
def render():
    return rendering.render


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


@pytest.fixture
def render_own(tmp_path):
    """Return the objects of a chart that has ours as a dependency and takes parts of a pod from its templates."""

    def rendered(pod, values=None):
        own = tmp_path / "own"
        (own / "templates").mkdir(parents=True, exist_ok=True)
        (own / "Chart.yaml").write_text("apiVersion: v2\nname: own\nversion: 1.0.0\n")
        (own / "templates" / "pod.yaml").write_text(pod)
        shutil.copytree(CHART, own / "charts" / CHART.name, dirs_exist_ok=True)
        return render_chart(own, {CHART.name: {"mode": "sidecar", **(values or {})}})

    return rendered


@pytest.fixture
def render_sidecar(render_own):
    """Return the pod of a chart that takes the sidecar from our templates."""
    return lambda values=None: render_own(SIDECAR, values).one("Pod")["spec"]
