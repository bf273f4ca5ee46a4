"""The API of the installed program against its own description, by schemathesis.

What it makes up: right and wrong parameters for every page, and methods that are not there. What it checks: no answer
is a 5xx, each has a status, a type and a body that the description knows, wrong requests are refused.
"""

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings

from spec_decode_exporter.web.api import ENDPOINTS

schemathesis = pytest.importorskip("schemathesis", reason="make e2e installs it")
validator = pytest.importorskip("openapi_spec_validator", reason="make e2e installs it")


@pytest.fixture(scope="module")
def exporter(start, e2e):
    """The program beside a simulated server of its own that has drafted."""
    address = f"127.0.0.1:{e2e.free_port()}"
    command = [e2e.PROGRAM, "run", "--simulate", "drop", "--web.listen-address", address]
    exporter = start(lambda folder: e2e.Running("demonstration", command, folder))
    exporter.url = f"http://{address}"
    exporter.wait_for(f"{exporter.url}/-/ready")
    drafted = re.compile("^spec_decode_drafts_total{.*} [1-9]", re.MULTILINE)
    e2e.eventually(lambda: drafted.search(e2e.fetch(f"{exporter.url}/metrics")[2]))
    return exporter


@pytest.fixture(scope="module")
def api(exporter):
    return schemathesis.openapi.from_url(f"{exporter.url}/api/v1/openapi.json")


CASES = [
    *((endpoint, schemathesis.GenerationMode.POSITIVE) for endpoint in ENDPOINTS),
    *((endpoint, schemathesis.GenerationMode.NEGATIVE) for endpoint in ENDPOINTS if endpoint.parameters),
]
KEPT = {"window": ["30s", "5m"], "match": ["target=one"]}
"""What is right of these, what the exporter keeps decides, and not the description."""


@schemathesis.serializer("application/x-ndjson")
def lines(_context, value):
    """The description knows lines as a text; what is sent is some text in each of them, as JSON."""
    return "\n".join(json.dumps(line) for line in [*str(value).splitlines(), ""]).encode()


@pytest.mark.parametrize(
    ("endpoint", "mode"), [pytest.param(*case, id=f"{case[0].name}-{case[1].value}") for case in CASES]
)
def test_every_answer_is_as_described(api, e2e, endpoint, mode):
    """Not by schemathesis' own plugin for pytest, which does not know pytest 9.2."""
    chosen = api.include(path=endpoint.path, method=endpoint.method)
    (operation,) = (each.ok() for each in chosen.get_all_operations())

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        if mode is schemathesis.GenerationMode.POSITIVE:
            case.query = {name: KEPT.get(name, value) for name, value in (case.query or {}).items()}
        case.call_and_validate(timeout=e2e.CEILING)

    check()


def test_the_description_is_openapi(exporter, e2e):
    validator.validate(json.loads(e2e.fetch(f"{exporter.url}/api/v1/openapi.json")[2]))
