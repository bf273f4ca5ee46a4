"""The OpenAPI document of the route table. tests/e2e/test_api.py compares the program with it."""

from __future__ import annotations

import json
import re

import pytest

from spec_decode_exporter.monitor.event_log import MAX_EVENTS
from spec_decode_exporter.requests.record import MAX_BATCH_REQUESTS
from spec_decode_exporter.views.history import DEFAULT_STEPS, MAX_STEPS
from spec_decode_exporter.web.api import ENDPOINTS
from spec_decode_exporter.web.endpoint import MAX_PARAMETERS
from spec_decode_exporter.web.openapi import BODY_SECONDS, MAX_BODY_BYTES, document
from tests.every import every


@pytest.fixture(scope="module")
def described():
    return json.loads(document(ENDPOINTS))


def operation_of(described, endpoint):
    return described["paths"][endpoint.path][endpoint.method.lower()]


async def test_the_document_is_served(get, described):
    assert await get("/api/v1/openapi.json") == described


def test_the_document_has_exactly_the_served_paths(described):
    pages = [(path, *page) for path, methods in described["paths"].items() for page in methods.items()]
    found = [(path, method, page["operationId"]) for path, method, page in pages]
    assert found == [(each.path, each.method.lower(), each.name) for each in ENDPOINTS]
    assert len({name for *_, name in found}) == len(found)


@every(ENDPOINTS, name=lambda endpoint: endpoint.name)
def test_an_endpoint_has_all_its_parameters_its_model_and_its_problems(endpoint, described):
    operation = operation_of(described, endpoint)
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
    assert {"400", "503", "default"} <= operation["responses"].keys()


def parameters_of(described, name):
    page = next(page["get"] for page in described["paths"].values() if page["get"]["operationId"] == name)
    return {each["name"]: each["schema"] for each in page["parameters"]}


def test_documented_limits_are_those_that_the_code_checks(described):
    assert parameters_of(described, "events")["limit"]["maximum"] == MAX_EVENTS
    history = described["paths"]["/api/v1/history"]["get"]["parameters"]
    step = next(each["description"] for each in history if each["name"] == "step")
    assert f"about {DEFAULT_STEPS} steps; the maximum is {MAX_STEPS} steps" in step
    ingest = described["paths"]["/api/v1/requests"]["post"]
    schema = ingest["requestBody"]["content"]["application/json"]["schema"]
    assert schema["anyOf"][1]["maxItems"] == MAX_BATCH_REQUESTS
    texts = {status: response["description"] for status, response in ingest["responses"].items()}
    assert f"more than {MAX_PARAMETERS} parameters" in texts["400"]
    assert f"{BODY_SECONDS:.0f} seconds" in texts["408"]
    assert f"{MAX_BODY_BYTES} bytes or {MAX_BATCH_REQUESTS} requests" in texts["413"]
