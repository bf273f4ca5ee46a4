"""Errors under the API's path are problems, whoever refuses the request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import MultiDict
from structlog.testing import capture_logs

from spec_decode_exporter.web.api.problems import ProblemView, RequestError
from spec_decode_exporter.web.api.queries import (
    MOST_PARAMETERS,
    ApiQuery,
    EngineQuery,
    EventsQuery,
    HistoryQuery,
    SnapshotQuery,
    read,
)
from spec_decode_exporter.web.application import create_app


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


@pytest.mark.parametrize("page", ["snapshot", "history"])
async def test_a_label_that_no_target_has_is_refused_as_a_misspelt_parameter_is(client, page):
    problem = await problem_of(await client.get(f"/api/v1/{page}?match=zone=eu&match=zon=eu"), 400)
    ((wrong),) = problem.parameters
    assert wrong.name == "match"
    assert wrong.problem == "names a label that no target has; there are target, model_name, engine, zone"


async def test_so_is_one_to_group_by(client):
    problem = await problem_of(await client.get("/api/v1/snapshot?group_by=zone&group_by=team"), 400)
    assert problem.detail == (
        "The parameter group_by names a label that no target has; there are target, model_name, engine, zone."
    )


async def test_the_root_of_the_api_is_of_the_api(client):
    await problem_of(await client.get("/api"), 404)


async def test_what_is_refused_before_its_path_is_known_is_plain(client):
    answer = await client.get(f"/api/v1/snapshot?target={'x' * 10_000}")
    assert (answer.status, answer.content_type) == (400, "text/plain")


async def test_a_defect_of_ours_tells_no_secret(aiohttp_client, make_state):
    async def fail():
        raise RuntimeError("password=secret")

    client = await aiohttp_client(create_app(make_state(prepare=fail)))
    with capture_logs() as logs:
        problem = await problem_of(await client.get("/api/v1/snapshot"), 500)
    assert "secret" not in problem.detail
    assert [entry["event"] for entry in logs] == ["request_failed"]


async def test_other_pages_keep_their_plain_errors(client):
    for path in ("/nowhere", "/apis"):
        answer = await client.get(path)
        assert (answer.status, answer.content_type) == (404, "text/plain")


NO_LIMIT = "is not a whole number from 1 to 1000"
NO_STEP = "is not a length of time, such as 500ms, 5s or 1m"
NO_MATCH = "is not name=value, such as zone=eu"
NO_TYPE = "is no type of event; there are engine_found, engine_reset, acceptance_dropped, "


@pytest.mark.parametrize(
    ("model", "query", "problem"),
    [
        (EventsQuery, [("limit", "0")], NO_LIMIT),
        (EventsQuery, [("limit", "1001")], NO_LIMIT),
        (EventsQuery, [("limit", "1.0")], NO_LIMIT),
        (EventsQuery, [("limit", "५")], NO_LIMIT),
        (EventsQuery, [("limit", "9" * 5000)], NO_LIMIT),
        (EventsQuery, [("limit", "1"), ("limit", "2")], "is given more than once"),
        (EventsQuery, [("since", "17")], "is not the id of an event"),
        (EventsQuery, [("since", "a1-17\n")], "is not the id of an event"),
        (EventsQuery, [("type", "acceptance_droped")], NO_TYPE),
        (EventsQuery, [("type", "engine_summary")], NO_TYPE),
        (EventsQuery, [("type", "acceptance_dropped"), ("type", "reloaded")], NO_TYPE),
        (HistoryQuery, [("step", "5")], NO_STEP),
        (HistoryQuery, [("step", "0")], NO_STEP),
        (EngineQuery, [("match", "zone")], NO_MATCH),
        (EngineQuery, [("match", "2=3")], NO_MATCH),
        (EngineQuery, [("match", "zone=eu\n")], NO_MATCH),
        (SnapshotQuery, [("verdict", "good")], "is no verdict; there are optimal, healthy, "),
        (SnapshotQuery, [("group_by", "a-b")], "is not the name of a label, such as model_name"),
        (ApiQuery, [("x", "")], "is not known here; known are none"),
    ],
)
def test_what_is_wrong_is_named_and_said_in_a_sentence(model, query, problem):
    with pytest.raises(RequestError) as refused:
        read(model, MultiDict(query))
    ((wrong),) = refused.value.parameters
    assert wrong.name == query[0][0]
    assert wrong.problem.startswith(problem)
    assert str(refused.value) == f"The parameter {wrong.name} {wrong.problem}."


def test_more_parameters_than_are_read_are_refused_without_repeating_them():
    given = MultiDict(("target", f"t{number}") for number in range(MOST_PARAMETERS + 1))
    with pytest.raises(RequestError, match=f"has {MOST_PARAMETERS + 1} parameters; at most") as caught:
        read(SnapshotQuery, given)
    assert caught.value.parameters == ()


def test_a_long_name_of_a_parameter_is_not_repeated_whole():
    with pytest.raises(RequestError) as caught:
        read(SnapshotQuery, MultiDict([("x" * 8000, "")]))
    assert [wrong.name for wrong in caught.value.parameters] == ["x" * 100]


def test_what_is_repeated_counts_once():
    given = MultiDict([("match", "zone=eu")] * MOST_PARAMETERS)
    assert read(SnapshotQuery, given).match == ("zone=eu",)


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
