"""The OpenAPI document is made of the route table and the models. tests/e2e/test_api.py holds the program against it."""

from __future__ import annotations

import json
import re

import pytest

from exporter.web.api.openapi import document
from exporter.web.api.problems import ProblemView
from exporter.web.api.routes import ENDPOINTS


@pytest.fixture(scope="module")
def described():
    return json.loads(document(ENDPOINTS))


async def test_it_is_served(get, described):
    assert await get("/api/v1/openapi.json") == described


def test_every_page_is_described_and_no_other(described):
    assert list(described["paths"]) == [endpoint.path for endpoint in ENDPOINTS]
    names = [page["get"]["operationId"] for page in described["paths"].values()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_a_page_has_the_parameters_that_it_reads_each_with_a_description(described, endpoint):
    parameters = described["paths"][endpoint.path]["get"]["parameters"]
    assert [each["name"] for each in parameters if each["in"] == "query"] == list(endpoint.query.model_fields)
    assert all(each["description"] for each in parameters if each["in"] == "query")
    assert "null" not in json.dumps(parameters), "a URL has no null"
    in_path = {each["name"] for each in parameters if each["in"] == "path"}
    assert in_path == set(re.findall(r"{(\w+)}", endpoint.path))


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_a_page_names_its_model_and_its_problems(described, endpoint):
    responses = described["paths"][endpoint.path]["get"]["responses"]
    (content,) = responses["200"]["content"].items()
    assert content[0] == endpoint.content_type
    if endpoint.model and endpoint.content_type == "application/json":
        assert content[1]["schema"] == {"$ref": f"#/components/schemas/{endpoint.model.__name__}"}
    assert {"400", "default"} <= responses.keys()
    assert ("503" in responses) == (endpoint.costly or 503 in endpoint.problems)


def test_every_reference_leads_somewhere(described):
    schemas = described["components"]["schemas"]
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(described)))
    assert references <= schemas.keys()
    assert ProblemView.__name__ in references
    assert {endpoint.model.__name__ for endpoint in ENDPOINTS if endpoint.model} <= schemas.keys()
