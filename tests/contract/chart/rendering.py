"""The chart, rendered by Helm's own engine in this process."""

from __future__ import annotations

import json

import yaml

from tests.paths import CHECKOUT

CHART = CHECKOUT / "helm" / "spec-decode-exporter"
OPERATOR = [f"monitoring.coreos.com/v1/{kind}" for kind in ("ServiceMonitor", "PodMonitor", "PrometheusRule")]


class _Loader(yaml.SafeLoader):
    """Loader that reads a plain `=` as text, as Kubernetes does; YAML 1.1 has a type for it."""


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

    def pods(self):
        """Yield the specs of all pods, those of workloads and that of the test."""
        for one in self:
            if one["kind"] == "Pod":
                yield one["spec"]
            elif one["kind"] in {"Deployment", "StatefulSet"}:
                yield one["spec"]["template"]["spec"]

    def container(self):
        """Return the container of the exporter."""
        (workload,) = self.of("Deployment") + self.of("StatefulSet")
        return workload["spec"]["template"]["spec"]["containers"][0]

    @property
    def notes(self):
        return next(text for path, text in self.texts.items() if path.endswith("NOTES.txt"))


def render_chart(folder, values=None, kube_version="v1.36.0", **options):
    # The module's public method has no way to name the version of Kubernetes, or to be strict about names.
    from helm_python import Chart, _native

    settings = {"name": "rel", "namespace": "obs", "kube_version": kube_version, "strict": True, **options}
    chart = Chart.load(str(folder))
    asked = json.dumps(values or {}), json.dumps({**settings, "api_versions": OPERATOR})
    return Rendered(json.loads(_native.call_string("helm_render", chart._raw(), *asked)))
