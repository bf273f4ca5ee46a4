"""The API of three engines with polls, two targets, and some events."""

from unittest.mock import AsyncMock

import pytest

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.snapshot import Snapshot, TargetStatus
from spec_decode_exporter.scrape.poll_record import PollRecord
from spec_decode_exporter.web.application import create_app
from tests.conftest import make_sample
from tests.unit.web.plain_state import plain_state

NOW = 1_790_000_000.0
POLLS = 200


def polled(position_gains):
    """Return the snapshot of an engine with one poll per second."""
    watch = EngineMonitor((30.0, 300.0))
    for n in range(POLLS):
        sample = make_sample(
            40 * n,
            40 * len(position_gains) * n,
            sum(position_gains) * n,
            positions=[gain * n for gain in position_gains],
            generation_tokens=(41 + sum(position_gains)) * n,
            first_tokens=n,
            decode_steps=40 * n,
            decode_nanoseconds=10**9 * n,
            running_requests=4.0,
            created=NOW - 1000,
        )
        watch.observe(sample, float(n), NOW - POLLS + n, 1.0, 1.0)
    watch.evaluate()
    return watch.snapshot


@pytest.fixture(scope="package")
def engines():
    llama = {"model_name": "llama", "engine": "0"}
    return [
        ({"target": "chat", **llama, "zone": "eu"}, polled((30, 20, 10))),
        ({"target": "code", **llama, "zone": "us"}, polled((36, 30))),
        ({"target": "idle", **llama, "zone": "", "model_name": "<b>\u2028"}, polled(())),
    ]


@pytest.fixture
def events():
    log = EventLog("a1", lambda: NOW, capacity=50)
    for n in range(5):
        log.record(
            Event("engine_reset", {"cause": "restart", "n": n}),
            NOW + n,
            {"target": "chat", "model_name": "llama", "engine": "0"},
        )
    log.record(Event("target_failing", {"reason": "refused", "error": "no"}), NOW + 9, {"target": "code"})
    return log


def target(name):
    record = PollRecord(up=True, polls=POLLS, version="0.32.0", engines=1)
    return {"target": name}, TargetStatus(record, engine_kind="vllm", name=name, labels={"target": name})


@pytest.fixture
def sources(engines, events):
    """The data sources of ExporterState for three engines, two targets and six events."""
    snapshot = Snapshot(engines, [target("chat"), target("code")], last_event=events.last)
    return {
        "labels": lambda: ["target", "model_name", "engine", "zone"],
        "windows": lambda: ["30s", "5m"],
        "snapshot": AsyncMock(return_value=snapshot),
        "events": events,
    }


@pytest.fixture
async def client(aiohttp_client, sources):
    return await aiohttp_client(create_app(plain_state(**sources)))


async def json_of(client, path):
    """Return the answer of a path of the API."""
    answer = await client.get(f"/api/v1/{path}")
    assert answer.status == 200, await answer.text()
    return await answer.json(content_type=None)
