"""The files beside the dashboards load all of them."""

from __future__ import annotations

import yaml

from grafana.__main__ import FOLDER

GRAFANA = FOLDER.parent
DASHBOARDS = {path.relative_to(GRAFANA).as_posix() for path in FOLDER.iterdir()}


def read(name):
    return yaml.safe_load((GRAFANA / name).read_text(encoding="utf-8"))


def test_every_dashboard_becomes_a_configmap_of_its_own():
    generated = read("kustomization.yaml")["configMapGenerator"]
    assert [entry["files"] for entry in generated] == [
        [f"dashboards/{entry['name']}.json"] for entry in generated
    ]
    assert {file for entry in generated for file in entry["files"]} == DASHBOARDS


def test_the_sidecar_of_grafana_finds_the_configmaps():
    assert read("kustomization.yaml")["generatorOptions"]["labels"]["grafana_dashboard"] == "1"


def test_files_cannot_be_changed_in_grafana():
    (provider,) = read("provisioning/dashboards/spec-decode.yml")["providers"]
    assert (provider["type"], provider["allowUiUpdates"]) == ("file", False)


def test_the_data_source_knows_the_scrape_interval():
    (source,) = read("provisioning/datasources/prometheus.yml")["datasources"]
    assert (source["type"], source["isDefault"]) == ("prometheus", True)
    assert source["jsonData"]["timeInterval"] == "15s"


def test_the_readme_names_every_dashboard():
    text = (GRAFANA / "README.md").read_text(encoding="utf-8")
    assert all(f"({name})" in text for name in DASHBOARDS)
