"""The OpenAPI document of the route table. tests/e2e/test_api.py compares the program with it."""

import json
import re

import pytest

from spec_decode_exporter.web.api import ENDPOINTS, document
from tests.every import every


@pytest.fixture(scope="module")
def described():
    return json.loads(document())


@every(ENDPOINTS, name=lambda endpoint: endpoint.name)
def test_an_endpoint_has_all_its_parameters_its_model_and_its_problems(endpoint, described):
    operation = described["paths"][endpoint.path][endpoint.method.lower()]
    parameters = operation["parameters"]
    in_query = [each for each in parameters if each["in"] == "query"]
    assert [each["name"] for each in in_query] == [each.name for each in endpoint.parameters]
    assert all(each["description"] for each in in_query)
    assert "null" not in json.dumps(parameters), "a URL has no null"
    in_path = {each["name"] for each in parameters if each["in"] == "path"}
    assert in_path == set(re.findall(r"{(\w+)}", endpoint.path))
    content = operation["responses"]["200"]["content"]["application/json"]
    if endpoint.model:
        assert content["schema"] == {"$ref": f"#/components/schemas/{endpoint.model.__name__}"}
    assert {"200", "default"} == operation["responses"].keys()
