"""The file by which vLLM tells its sidecar of requests, as a ConfigMap, and what vLLM's container needs for it."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from helm.chart_files import ROOT
from spec_decode_exporter.vllm_middleware import spec_decode_requests
from tests.contract.chart.rendering import CHART, MIDDLEWARE, ON, render, render_own

FILE = Path(spec_decode_requests.__file__)


def of_the_file(rendered):
    return [one for one in rendered.of("ConfigMap") if FILE.name in one["data"]]


def test_the_file_is_whole_and_in_every_namespace_of_the_pods():
    made = of_the_file(render({**ON, "sidecar": {"middleware": True, "namespaces": ["a", "b"]}}))
    assert [one["metadata"]["namespace"] for one in made] == ["a", "b"]
    assert {one["data"][FILE.name].rstrip() for one in made} == {FILE.read_text().rstrip()}


def test_what_the_container_needs_fits_together():
    rendered = render_own(MIDDLEWARE, {**ON, "sidecar": {"middleware": True, "port": 9000}})
    pod = rendered.one("Pod")["spec"]
    (volume,), (container,) = pod["volumes"], pod["containers"]
    (mount,) = container["volumeMounts"]
    environment = {one["name"]: one["value"] for one in container["env"]}
    assert mount["name"] == volume["name"]
    assert environment["PYTHONPATH"] == mount["mountPath"]
    assert environment["SPEC_DECODE_REQUESTS_URL"] == "http://127.0.0.1:9000/api/v1/requests"
    assert [volume["configMap"]["name"]] == [one["metadata"]["name"] for one in of_the_file(rendered)]
    with pytest.raises(Exception, match=r"set sidecar\.middleware,"):
        render_own(MIDDLEWARE)


@pytest.mark.parametrize("release", ["spec-decode-exporter", "vllm"])
def test_its_name_is_the_one_that_is_documented_and_told_after_it_is_installed(release):
    name = "spec-decode-exporter-middleware"
    if release != "spec-decode-exporter":
        name = f"{release}-{name}"
    rendered = render(ON, name=release)
    assert [one["metadata"]["name"] for one in of_the_file(rendered)] == [name]
    assert f"from the ConfigMap {name} (" in rendered.notes
    assert "before you disable it or uninstall" in rendered.notes
    page = (ROOT / "docs" / "guide" / "requests-inside.md").read_text()
    assert "configMap: {name: spec-decode-exporter-middleware}" in page
    assert "`<release>-spec-decode-exporter-middleware`" in page


def test_the_address_that_it_sends_to_by_default_is_the_sidecar_s():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert urlsplit(spec_decode_requests.Settings().url).port == values["sidecar"]["port"]
