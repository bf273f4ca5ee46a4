"""Command recommend: its three inputs, and their errors."""

import json
from unittest.mock import AsyncMock

import pytest
from aiohttp import web

from spec_decode_exporter.cli.recommend import read_snapshot_of
from spec_decode_exporter.reports.observation_report import json_report
from spec_decode_exporter.reports.observation_view import ObservationView
from spec_decode_exporter.reports.saved_snapshot import SavedFileError
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.views.fleet_view import SnapshotView, target_view
from tests.unit.web.api.conftest import target

LABELS = {"target": "chat-0", "model_name": "org/target", "engine": "0"}


@pytest.fixture(name="snapshot", scope="module")
def fixture_snapshot(busy):
    return SnapshotView(time=1.0, version="1", engines=(EngineView(labels=LABELS, snapshot=busy),))


def test_a_saved_snapshot_is_read_whatever_the_file_of_a_running_exporter(
    program, tmp_path, snapshot, monkeypatch
):
    monkeypatch.setenv("SPEC_DECODE_EXPORTER_CONFIG_FILE", "/etc/exporter.yml")  # as in its container
    file = tmp_path / "saved.json"
    file.write_text(snapshot.model_dump_json())
    status, text, _ = program("recommend", "--snapshot", str(file), "--format", "json")
    (shown,) = json.loads(text)["engines"]
    assert shown["setting"] == snapshot.engines[0].setting.model_dump(mode="json")
    assert status == (0 if shown["setting"]["tokens"] is not None else 3)


def test_a_server_without_an_engine_is_an_error(program, tmp_path, snapshot):
    _, status = target("chat-1")
    unreachable = target_view(status).model_copy(update={"up": False, "error": "timeout: no answer"})
    observation = ObservationView(**dict(snapshot), seconds=30.0, targets=(unreachable,), events=())
    file = tmp_path / "saved.json"
    file.write_text(json_report(observation))
    status, _, error = program("recommend", "--snapshot", str(file))
    assert status == 1
    assert "chat-1: timeout" in error


HTML, PROBLEM = "text/html", "application/problem+json"


@pytest.mark.parametrize(
    ("status", "kind", "body", "reason"),
    [
        (200, HTML, "<html>hello", ": no spec-decode-exporter answers there; name a vLLM without --exporter"),
        (404, HTML, "Not Found", ": status 404 Not Found: no spec-decode-exporter answers there; name a vLLM without --exporter"),
        (200, HTML, '{"time": 1, "version": "9.0.0", "engines": 7}', ": the exporter has another version than this command"),
        # An untrusted explanation is bounded and escaped.
        (403, PROBLEM, '{"detail": "red \\u001b[31m"}', ": status 403 Forbidden: red ?[31m"),
        (403, PROBLEM, "7" * 20_000, ": status 403 Forbidden"),
        (403, HTML, '{"detail": "no"}', ": status 403 Forbidden"),
    ],
)  # fmt: skip
async def test_a_page_that_is_no_exporters_is_said_to_be_none(aiohttp_server, status, kind, body, reason):
    answer = AsyncMock(return_value=web.Response(status=status, text=body, content_type=kind))
    app = web.Application()
    app.router.add_get("/api/v1/snapshot", answer)
    server = await aiohttp_server(app)
    with pytest.raises(SavedFileError) as caught:
        await read_snapshot_of(str(server.make_url("/api/v1/snapshot")))
    assert str(caught.value).endswith(reason)
