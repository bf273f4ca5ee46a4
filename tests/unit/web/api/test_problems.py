"""All errors under the API's path are RFC 9457 problems."""

from io import BytesIO

import pytest
from multidict import MultiDict

from spec_decode_exporter.web.api import EVENTS, SNAPSHOT
from spec_decode_exporter.web.endpoint import MAX_PARAMETERS, ProblemView, RequestError, read


async def problem_of(answer, status):
    assert (answer.status, answer.content_type) == (status, "application/problem+json")
    problem = ProblemView.model_validate(await answer.json())
    assert problem.status == status
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    return problem


async def test_an_unknown_path_and_an_unsupported_method_are_problems(client):
    problem = await problem_of(await client.get("/api/v2/snapshot"), 404)
    assert (problem.type, problem.title) == ("about:blank", "Not Found")
    answer = await client.post("/api/v1/snapshot")
    await problem_of(answer, 405)
    assert answer.headers["Allow"] == "GET,HEAD"


async def test_a_body_that_nobody_reads_is_a_problem_and_closes_the_connection(client):
    answer = await client.post("/api/v1/snapshot", data=BytesIO(bytes(2**20 + 1)))
    problem = await problem_of(answer, 413)
    assert problem.detail == "The request body must have a Content-Length of at most 1048576 bytes."
    assert answer.headers["Connection"] == "close"


NO_LABEL = "match names a label that no target has; there are target, model_name, engine, zone"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("snapshot?tagret=x&target=y", "tagret is unknown; there are target, model, engine, match,"),
        ("targets?target=x", "target is unknown; there are none."),
        ("snapshot?window=7m", "window names a window that is not configured; there are 30s, 5m."),
        ("snapshot?match=zone=eu&match=zon=eu", NO_LABEL),
    ],
)
async def test_a_parameter_that_is_not_known_here_is_named(client, query, text):
    problem = await problem_of(await client.get(f"/api/v1/{query}"), 400)
    assert problem.detail.startswith(f"The parameter {text}")


async def test_errors_of_other_paths_and_a_request_line_that_is_too_long_are_plain_text(client):
    for path, status in (("/nowhere", 404), ("/apis", 404), (f"/api/v1/snapshot?target={'x' * 10_000}", 400)):
        answer = await client.get(path)
        assert (answer.status, answer.content_type) == (status, "text/plain")


NO_LIMIT = "is not a whole number from 1 to 1000"
NO_MATCH = "is not name=value, such as zone=eu"
NO_TYPE = "is not an event type; there are engine_found, engine_reset, acceptance_dropped, "


@pytest.mark.parametrize(
    ("parameters", "query", "problem"),
    [
        (EVENTS, [("limit", "0")], NO_LIMIT),
        (EVENTS, [("limit", "५")], NO_LIMIT),
        (EVENTS, [("limit", "9" * 5000)], NO_LIMIT),
        (EVENTS, [("limit", "1"), ("limit", "2")], "is repeated"),
        (EVENTS, [("since", "a1-17\n")], "is not the id of an event"),
        (EVENTS, [("type", "acceptance_droped")], NO_TYPE),
        (SNAPSHOT, [("match", "zone")], NO_MATCH),
        (SNAPSHOT, [("verdict", "good")], "is not a verdict; there are optimal, healthy, "),
        ((), [("x", "")], "is unknown; there are none"),
    ],
)
def test_an_invalid_parameter_is_named_in_a_sentence(parameters, query, problem):
    with pytest.raises(RequestError) as rejected:
        read(parameters, MultiDict(query))
    assert str(rejected.value).startswith(f"The parameter {query[0][0]} {problem}")


def test_too_many_parameters_are_rejected_without_repeating_them_and_long_names_are_truncated():
    parameters = MultiDict(("target", f"t{number}") for number in range(MAX_PARAMETERS))
    assert read(SNAPSHOT, parameters)
    parameters.add("target", "one more")
    with pytest.raises(
        RequestError, match=f"has {MAX_PARAMETERS + 1} parameters; the maximum is {MAX_PARAMETERS}[.]$"
    ):
        read(SNAPSHOT, parameters)
    with pytest.raises(RequestError, match=f"The parameter {'x' * 100} is unknown"):
        read(SNAPSHOT, MultiDict([("x" * 8000, "")]))
