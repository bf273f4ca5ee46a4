"""The OpenAPI document of the route table. tests/e2e/test_api.py compares the program with it."""

from __future__ import annotations

import json
import re

import pytest

from spec_decode_exporter.monitor.event_log import MAX_EVENTS
from spec_decode_exporter.monitor.events import EVENT_TYPES
from spec_decode_exporter.requests.record import MAX_BATCH_REQUESTS
from spec_decode_exporter.views.history import DEFAULT_STEPS, MAX_STEPS
from spec_decode_exporter.web.api import ENDPOINTS
from spec_decode_exporter.web.endpoint import MAX_PARAMETERS, ProblemView
from spec_decode_exporter.web.openapi import BODY_SECONDS, MAX_BODY_BYTES, document


@pytest.fixture(scope="module")
def described():
    return json.loads(document(ENDPOINTS))


def method_of(endpoint):
    """Return the HTTP method as OpenAPI writes it."""
    return endpoint.method.lower()


async def test_the_document_is_served(get, described):
    assert await get("/api/v1/openapi.json") == described


def test_the_document_has_exactly_the_served_paths(described):
    pages = [(path, method) for path, methods in described["paths"].items() for method in methods]
    assert pages == [(endpoint.path, method_of(endpoint)) for endpoint in ENDPOINTS]
    names = [page["operationId"] for methods in described["paths"].values() for page in methods.values()]
    assert names == [endpoint.name for endpoint in ENDPOINTS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_an_endpoint_has_all_its_parameters_with_descriptions(described, endpoint):
    parameters = described["paths"][endpoint.path][method_of(endpoint)]["parameters"]
    assert [each["name"] for each in parameters if each["in"] == "query"] == [
        each.name for each in endpoint.parameters
    ]
    assert all(each["description"] for each in parameters if each["in"] == "query")
    assert "null" not in json.dumps(parameters), "a URL has no null"
    in_path = {each["name"] for each in parameters if each["in"] == "path"}
    assert in_path == set(re.findall(r"{(\w+)}", endpoint.path))


def parameters_of(described, name):
    page = next(page["get"] for page in described["paths"].values() if page["get"]["operationId"] == name)
    return {each["name"]: each["schema"] for each in page["parameters"]}


def test_documented_limits_are_those_that_the_code_checks(described):
    assert parameters_of(described, "events")["limit"]["maximum"] == MAX_EVENTS
    step = next(
        each for each in described["paths"]["/api/v1/history"]["get"]["parameters"] if each["name"] == "step"
    )
    assert f"about {DEFAULT_STEPS} steps; the maximum is {MAX_STEPS} steps" in step["description"]
    ingest = described["paths"]["/api/v1/requests"]["post"]
    assert (
        ingest["requestBody"]["content"]["application/json"]["schema"]["anyOf"][1]["maxItems"]
        == MAX_BATCH_REQUESTS
    )
    texts = {status: response["description"] for status, response in ingest["responses"].items()}
    assert f"more than {MAX_PARAMETERS} parameters" in texts["400"]
    assert f"{BODY_SECONDS:.0f} seconds" in texts["408"]
    assert f"{MAX_BODY_BYTES} bytes or {MAX_BATCH_REQUESTS} requests" in texts["413"]


def test_event_types_are_those_of_the_log(described):
    """Event types are those that the log documents as events of engines and targets."""
    asked = parameters_of(described, "events")["type"]["items"]["enum"]
    assert asked == described["components"]["schemas"]["RecordedEvent"]["properties"]["type"]["enum"]
    assert asked == list(EVENT_TYPES)
    assert {"acceptance_dropped", "target_failing"} <= set(asked)
    assert {"engine_summary", "poll_crashed", "reloaded"}.isdisjoint(asked)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_an_endpoint_has_its_model_and_its_problems(described, endpoint):
    responses = described["paths"][endpoint.path][method_of(endpoint)]["responses"]
    content = responses["200"]["content"]["application/json"]
    if endpoint.model:
        assert content["schema"] == {"$ref": f"#/components/schemas/{endpoint.model.__name__}"}
    assert {"400", "default"} <= responses.keys()
    assert "503" in responses


def test_every_reference_resolves(described):
    schemas = described["components"]["schemas"]
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(described)))
    assert references <= schemas.keys()
    assert ProblemView.__name__ in references
    assert {endpoint.model.__name__ for endpoint in ENDPOINTS if endpoint.model} <= schemas.keys()
