"""Errors under the API's path are problems, whoever refuses the request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import MultiDict
from structlog.testing import capture_logs

from exporter.web.api.problems import ProblemView, RequestError
from exporter.web.api.queries import EngineQuery, EventsQuery, HistoryQuery, Query, SnapshotQuery, read
from exporter.web.app import create_app


async def problem_of(answer, status):
    assert (answer.status, answer.content_type) == (status, "application/problem+json")
    problem = ProblemView.model_validate(await answer.json())
    assert problem.status == status
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    return problem


async def test_a_page_that_is_not_there(client):
    problem = await problem_of(await client.get("/api/v2/snapshot"), 404)
    assert (problem.type, problem.title) == ("about:blank", "Not Found")


async def test_a_method_that_is_not_there(client):
    answer = await client.post("/api/v1/snapshot")
    await problem_of(answer, 405)
    assert answer.headers["Allow"] == "GET,HEAD"


async def test_an_unknown_parameter_is_named(client):
    problem = await problem_of(await client.get("/api/v1/snapshot?tagret=x&target=y"), 400)
    ((wrong),) = problem.parameters
    assert wrong.name == "tagret"
    assert wrong.problem.startswith("is not known here; known are target, model, engine, match,")


async def test_a_page_without_parameters_takes_none(client):
    problem = await problem_of(await client.get("/api/v1/targets?target=x"), 400)
    assert problem.parameters[0].problem == "is not known here; known are none"


async def test_a_window_that_is_not_kept_is_named_with_those_that_are(client):
    problem = await problem_of(await client.get("/api/v1/snapshot?window=7m"), 400)
    assert problem.parameters[0].problem == "names one that is not kept; kept are 30s, 5m"


async def test_a_defect_of_ours_tells_no_secret(aiohttp_client, make_state):
    async def fail():
        raise RuntimeError("password=secret")

    client = await aiohttp_client(create_app(make_state(prepare=fail)))
    with capture_logs() as logs:
        problem = await problem_of(await client.get("/api/v1/snapshot"), 500)
    assert "secret" not in problem.detail
    assert [entry["event"] for entry in logs] == ["request_failed"]


async def test_other_pages_keep_their_plain_errors(client):
    answer = await client.get("/nowhere")
    assert (answer.status, answer.content_type) == (404, "text/plain")


@pytest.mark.parametrize(
    ("model", "query", "name"),
    [
        (EventsQuery, [("limit", "0")], "limit"),
        (EventsQuery, [("limit", "1001")], "limit"),
        (EventsQuery, [("limit", "1.0")], "limit"),
        (EventsQuery, [("limit", "५")], "limit"),
        (EventsQuery, [("limit", "1"), ("limit", "2")], "limit"),
        (EventsQuery, [("since", "17")], "since"),
        (HistoryQuery, [("step", "5")], "step"),
        (HistoryQuery, [("step", "0")], "step"),
        (EngineQuery, [("match", "zone")], "match"),
        (EngineQuery, [("match", "2=3")], "match"),
        (SnapshotQuery, [("verdict", "good")], "verdict"),
        (SnapshotQuery, [("group_by", "a-b")], "group_by"),
        (Query, [("x", "")], "x"),
    ],
)
def test_what_is_wrong_is_named(model, query, name):
    with pytest.raises(RequestError) as refused:
        read(model, MultiDict(query))
    assert [each.name for each in refused.value.parameters] == [name]
    assert name in str(refused.value)


def test_all_that_is_wrong_is_named_at_once():
    with pytest.raises(RequestError) as refused:
        read(EventsQuery, MultiDict([("limit", "x"), ("since", "x"), ("until", "x")]))
    assert sorted(each.name for each in refused.value.parameters) == ["limit", "since", "until"]


TEXTS = st.text(max_size=5)
LABELS = st.dictionaries(st.sampled_from(["zone", "team", "rack"]), st.sampled_from(["", "a", "b=c"]))


@given(
    labels=LABELS, wanted=LABELS, model=st.sampled_from(["m", "n"]), models=st.lists(st.sampled_from("mn"))
)
def test_an_engine_is_shown_if_all_that_is_asked_for_holds(labels, wanted, model, models):
    labels = {"target": "t", "model_name": model, "engine": "0", **labels}
    given_ = [("match", f"{name}={value}") for name, value in wanted.items()]
    query = read(EngineQuery, MultiDict([*given_, *(("model", each) for each in models)]))
    expected = all(labels.get(name, "") == value for name, value in wanted.items())
    assert query.selects(labels) == (expected and (not models or model in models))


@given(
    parameters=st.lists(st.tuples(st.one_of(st.sampled_from([*SnapshotQuery.model_fields]), TEXTS), TEXTS))
)
def test_any_query_is_read_or_refused(parameters):
    named = {name for name, _ in parameters}
    try:
        read(SnapshotQuery, MultiDict(parameters))
    except RequestError as refused:
        named -= {each.name for each in refused.parameters}
        assert named < {name for name, _ in parameters}, refused  # noqa: PT017  either is right
