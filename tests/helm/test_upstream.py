"""Other people's charts take our sidecar as docs/guide/kubernetes-sidecar.md says. They are not in this repository."""

from __future__ import annotations

import json
import os
import re

import pytest
import yaml

from tests.helm.kubernetes_pages import TEXT
from tests.helm.rendering import render_chart

VLLM_CHART = os.environ.get("VLLM_CHART")


@pytest.mark.skipif(not VLLM_CHART, reason="NOT TESTED: VLLM_CHART names no folder with vLLM's own chart")
def test_vllm_s_chart_puts_the_sidecar_into_its_pods():
    values = yaml.safe_load(re.search(r"<!-- vllm -->\n```yaml\n(.*?)```", TEXT, re.DOTALL)[1])
    (wanted,) = values["extraInit"]["initContainers"]
    pod = render_chart(VLLM_CHART, values, strict=False).one("Deployment")["spec"]["template"]
    found = [one for one in pod["spec"]["initContainers"] if one["name"] == wanted["name"]]
    assert found == [wanted]
    assert pod["spec"]["initContainers"][0]["name"] == "wait-download-model"
    labels = json.dumps(pod["metadata"]["labels"]).replace('"', "").strip("{}")
    assert f"`{labels}`" in TEXT
