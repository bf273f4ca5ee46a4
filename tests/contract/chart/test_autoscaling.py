"""The ScaledObject of docs/guide/integrations.md is what KEDA takes."""

from pathlib import Path

import yaml

from tests.contract.chart.test_manifests import closed
from tests.contract.integrations.shipped import SCALED_OBJECT

KEDA = yaml.safe_load(Path(__file__).with_name("keda.yaml").read_text(encoding="utf-8"))
SCHEMA = closed(KEDA["spec"]["versions"][0]["schema"]["openAPIV3Schema"])

TRIGGER = {"serverAddress", "query", "threshold", "ignoreNullValues"}
"""Used parameters of KEDA's scaler `prometheus` (kedacore/keda, schema/generated/scalers-schema.yaml, commit 8b4f083ca)."""


def test_the_scaled_object_is_what_keda_takes():
    import jsonschema

    jsonschema.validate(SCALED_OBJECT, SCHEMA)
    assert (SCALED_OBJECT["apiVersion"], SCALED_OBJECT["kind"]) == (
        "keda.sh/v1alpha1",
        KEDA["spec"]["names"]["kind"],
    )
    for trigger in SCALED_OBJECT["spec"]["triggers"]:
        assert trigger["type"] == "prometheus"
        assert set(trigger["metadata"]) == TRIGGER
        assert trigger["metricType"] in {"AverageValue", "Value"}
