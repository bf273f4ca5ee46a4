"""The ScaledObject of docs/guide/integrations.md is what KEDA takes."""

from tests.contract.chart.custom_resources import schema_of
from tests.contract.integrations.shipped import SCALED_OBJECT

TRIGGER = {"serverAddress", "query", "threshold", "ignoreNullValues"}
"""Used parameters of KEDA's scaler `prometheus` (kedacore/keda, schema/generated/scalers-schema.yaml, commit 8b4f083ca)."""


def test_the_scaled_object_is_what_keda_takes():
    import jsonschema

    jsonschema.validate(SCALED_OBJECT, schema_of("ScaledObject"))
    assert (SCALED_OBJECT["apiVersion"], SCALED_OBJECT["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    assert SCALED_OBJECT["spec"]["triggers"]
    for trigger in SCALED_OBJECT["spec"]["triggers"]:
        assert trigger["type"] == "prometheus"
        assert set(trigger["metadata"]) == TRIGGER
        assert trigger["metricType"] in {"AverageValue", "Value"}
