"""The snippets of docs/guide/kubernetes.md and kubernetes-sidecar.md are what the chart makes, and can be used."""

import re

import pytest
import yaml

from tests.contract.chart.rendering import TEXT, after, render, render_sidecar

BLOCKS = [
    block
    for block in re.findall(r"^ *```yaml\n(.*?)^ *```", TEXT, re.MULTILINE | re.DOTALL)
    if "{{" not in block
]
OUTSIDE = ("initContainers", "apiVersion", "resources", "spec-decode-exporter")


@pytest.mark.parametrize(
    "block", [one for one in BLOCKS if not re.search(rf"^({'|'.join(OUTSIDE)}):", one, re.MULTILINE)]
)
def test_values_are_accepted(block):
    values = yaml.safe_load(re.sub(r"<[a-z ]*>", "example", block))
    assert values["mode"] in {"fleet", "sidecar"}
    assert render(values)


def test_the_container_for_other_charts_is_that_of_the_chart():
    shown, pod = after("container"), render_sidecar()
    (given,), (own,) = shown["initContainers"], pod["initContainers"]
    marker = own["env"].pop(0)
    assert marker["name"] == "SPEC_DECODE_EXPORTER_IN_CHART"  # no other chart has its values
    assert {**given, "image": own["image"]} == own
    assert given["image"].endswith(own["image"])
    assert shown["volumes"] == pod["volumes"]
