"""One engine, target, experiment or group of requests fails: every page serves all others, and the log says so once."""

from __future__ import annotations

import json
from contextlib import ExitStack
from unittest.mock import patch

import aiohttp
import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.app.service import Options, Service
from spec_decode_exporter.config.load import load
from spec_decode_exporter.core.isolation import RECOVERED_AFTER
from spec_decode_exporter.monitor.engine_snapshot import id_of
from spec_decode_exporter.monitor.event_log import RecordedEvent
from spec_decode_exporter.requests.store import _model_findings
from spec_decode_exporter.views.fleet_view import target_view
from spec_decode_exporter.web.api import ENDPOINTS
from spec_decode_exporter.web.page import _environment
from spec_decode_exporter.web.server import parse_listen_address
from tests.fakes.simulated import Server
from tests.unit.requests.test_record import RECORD

GOOD, BAD = "good", "<img src=x onerror=alert(1)>\"'${version}"
NAME = json.dumps(BAD.replace("$", "$$"))
CONFIG = f"""
targets:
  - {{url: "http://good:8000/metrics", name: good}}
  - {{url: "http://bad:8000/metrics", name: {NAME}}}
windows: [10s, 30s]
poll: {{interval: 3s}}
metrics: {{profile: full}}
requests: {{ingest: true}}
log: {{summary_interval: 10s}}
state: {{file: STATE, interval: 10s}}
experiments:
  - {{name: good, baseline: a, arms: {{a: {{match: {{name: good}}}}, b: {{match: {{name: {NAME}}}}}}}}}
  - {{name: bad, baseline: a, arms: {{a: {{match: {{name: good}}}}, b: {{match: {{name: {NAME}}}}}}}}}
"""


def failing(place, is_bad):
    """A patch of a function that raises where it is about the bad item."""

    def start(stack):
        patcher = patch(place)
        original, _ = patcher.get_original()
        original = getattr(original, "__func__", original)

        def fails(*args, **kwargs):
            if is_bad(*args, **kwargs):
                raise RuntimeError("injected")
            return original(*args, **kwargs)

        stack.enter_context(patch(place, fails))

    return start


def reading(place, is_bad):
    """The same of a property."""

    def start(stack):
        patcher = patch(place)
        original, _ = patcher.get_original()
        read = original.fget if isinstance(original, property) else original.func

        def fails(self):
            if is_bad(self):
                raise RuntimeError("injected")
            return read(self)

        stack.enter_context(patch(place, property(fails)))

    return start


def drawing(name, change):
    """A function of the page's templates whose result is changed, so that drawing it raises."""

    def start(stack):
        functions = _environment().globals
        original = functions[name]
        stack.enter_context(patch.dict(functions, {name: lambda *args: change(original(*args))}))

    return start


def bad_target(status):
    """A target that raises when it is drawn."""
    view = target_view(status)
    return view.model_copy(update={"engines": None}) if view.target == BAD else view


def bad_modes(name, *more):
    """A model whose modes raise when they are drawn."""
    found = _model_findings(name, *more)
    return found._replace(modes=0) if name == "bad" else found


def bad_labels(labels, *_, **__):
    return labels.get("target") == BAD


def bad_shown(engine):
    return engine.target == BAD


def bad_section(name):
    return lambda template, **_: template == name


def bad_watch(watch, *_):
    return watch.target.name == BAD


def bad_key(key, *_):
    return key.request_type == "bad"


BAD_OBJECTS = set()


def bad_object(one, *_, **__):
    return one in BAD_OBJECTS


def bad_view(labels, *_):
    return labels.get("target") == BAD or "bad" in (labels.get("experiment"), labels.get("request_type"))


def bad_member(member):
    _, record, fields = member
    key = fields.get("key") or getattr(record, "key", None)
    return key is not None and bad_key(key)


INJECTIONS = {
    "engine: summing up": reading(
        "spec_decode_exporter.monitor.engine_monitor.EngineMonitor.snapshot", bad_object
    ),
    "engine: its windows": failing(
        "spec_decode_exporter.monitor.engine_monitor.EngineMonitor.windows", bad_object
    ),
    "engine: taking a sample": failing(
        "spec_decode_exporter.monitor.engine_monitor.EngineMonitor.observe", bad_object
    ),
    "engine: evaluating": failing(
        "spec_decode_exporter.monitor.engine_monitor.EngineMonitor._evaluated", lambda *_: True
    ),
    "engine: its method": reading(
        "spec_decode_exporter.monitor.engine_monitor.EngineMonitor.method", bad_object
    ),
    "engine: its cost": reading("spec_decode_exporter.monitor.engine_monitor.EngineMonitor.cost", bad_object),
    "engine: its learned state": reading("spec_decode_exporter.learned.learned.Learned.state", bad_object),
    "engine: its absence": failing("spec_decode_exporter.window.history.History.is_gone", bad_object),
    "engine: its JSON": failing("spec_decode_exporter.web.api.EngineView", bad_labels),
    "engine: its history": failing("spec_decode_exporter.web.api.history_view", bad_labels),
    "engine: its line": failing("spec_decode_exporter.web.page.acceptance_trace", lambda *_: True),
    "engine: what the page has of it": failing("spec_decode_exporter.web.fleet.EngineView", bad_labels),
    "engine: what it counts as": reading("spec_decode_exporter.web.fleet.EngineView.standing", bad_shown),
    "engine: its row": failing(
        "spec_decode_exporter.web.fleet.Events.of", lambda _, engine: bad_shown(engine)
    ),
    "engine: its details": reading("spec_decode_exporter.web.fleet.EngineView.totals", bad_shown),
    "engine: its words": failing("spec_decode_exporter.web.fleet.terms", bad_shown),
    "fleet: its headline": failing("spec_decode_exporter.web.page.headline", lambda *_: True),
    "engine: its summary": failing(
        "spec_decode_exporter.monitor.summary_log.SummaryLog.line", lambda _, labels, *__: bad_labels(labels)
    ),
    "engine: its lines": failing("spec_decode_exporter.metrics.page._View", bad_view),
    "engine: its group": failing("spec_decode_exporter.web.api.group_view", bad_labels),
    "target: its status": failing(
        "spec_decode_exporter.monitor.target_monitor.TargetMonitor.status", bad_watch
    ),
    "target: its JSON": failing(
        "spec_decode_exporter.app.exporter_state.target_view", lambda status: status.name == BAD
    ),
    "target: its engines": failing(
        "spec_decode_exporter.monitor.target_monitor.TargetMonitor._labelled", bad_watch
    ),
    "target: its row": lambda stack: stack.enter_context(
        patch("spec_decode_exporter.web.page.target_view", bad_target)
    ),
    "target: when to poll": failing(
        "spec_decode_exporter.scrape.poller.Poller._next_moment", lambda poller: "bad" in poller._url
    ),
    "targets: a section": failing("spec_decode_exporter.web.page.render", bad_section("targets.html")),
    "events: a section": failing("spec_decode_exporter.web.page.render", bad_section("events.html")),
    "events: one in JSON": failing(
        "spec_decode_exporter.web.api.encoded",
        lambda view: isinstance(view, RecordedEvent) and view.target == BAD,
    ),
    "experiment: comparing": failing(
        "spec_decode_exporter.monitor.experiment_monitor.ExperimentTracker.compare",
        lambda tracker, *_: tracker.settings.name == "bad",
    ),
    "experiments: what engines learn": failing(
        "spec_decode_exporter.monitor.experiment_monitor.ExperimentMonitor._inform", lambda *_: True
    ),
    "experiments: comparing any": failing(
        "spec_decode_exporter.monitor.experiment_monitor.ExperimentMonitor.compare", lambda *_: True
    ),
    "experiment: its JSON": failing(
        "spec_decode_exporter.web.api.experiment_view", lambda name, *_: name == "bad"
    ),
    "requests: a model": failing(
        "spec_decode_exporter.requests.store._model_findings", lambda name, *_: name == "bad"
    ),
    "requests: a group's JSON": failing("spec_decode_exporter.views.request_view._document", bad_member),
    "requests: a group's row": drawing(
        "in_order",
        lambda rows: [(group, None if bad_key(group.key) else windows) for group, windows in rows],
    ),
    "requests: a model's section": lambda stack: stack.enter_context(
        patch("spec_decode_exporter.requests.store._model_findings", bad_modes)
    ),
    "requests: events": failing(
        "spec_decode_exporter.monitor.request_receiver.RequestChangeNotifier.emit", lambda *_: True
    ),
}
SENT = [
    {**RECORD, "model": model, "request_type": kind}
    for model, kind in (("good", "chat"), ("good", "chat"), *[("good", "bad")] * 3, ("bad", "chat"))
]


class Running:
    """A running exporter and what it logs."""

    def __init__(self, service, logs):
        self.service = service
        self.logs = logs
        self.ids = {
            watch.target.name: id_of(labels) for watch in service.fleet for labels, _ in watch.histories()
        }

    async def ask(self, path, method="GET", **more):
        url = f"{self.service.urls[0].rstrip('/')}{path}"
        async with aiohttp.ClientSession() as session, session.request(method, url, **more) as answer:
            return answer.status, await answer.text()

    def failures(self):
        return [
            (
                log["event"],
                log["part"],
                *(log.get(name) for name in ("target", "experiment", "arm", "request_type", "model_name")),
            )
            for log in self.logs
            if log["event"] in ("internal_error", "internal_error_ended")
        ]


@pytest.fixture
async def running(tmp_path, clock, network):
    for name in ("good", "bad"):
        network.servers[f"{name}:8000"] = Server(clock, "steady", running=60)
    file = tmp_path / "exporter.yml"
    file.write_text(CONFIG.replace("STATE", str(tmp_path / "state.json")))
    service = Service(lambda: load(file, environ={}), Options([parse_listen_address("127.0.0.1:0")]), clock)
    with capture_logs() as logs:
        await service.start()
        try:
            await clock.advance(35.0)
            running = Running(service, logs)
            await running.ask("/api/v1/requests", "POST", json=SENT)
            watches = list(service.fleet)
            engines = [engine for engine, *_ in watches[-1].engines.values()]
            BAD_OBJECTS.update(engines)
            BAD_OBJECTS.update(part for engine in engines for part in (engine.history, engine.learned))
            yield running
        finally:
            BAD_OBJECTS.clear()
            await service.close()


async def look(running):
    """Ask every page; return what each shows of the good item and of the bad one, by page."""
    status, text = await running.ask("/api/v1/requests", "POST", json=SENT)
    assert status == 200, text
    shown = {}
    for endpoint in ENDPOINTS:
        if endpoint.method != "GET":
            continue
        path = endpoint.path.replace("{engine_id}", running.ids[GOOD])
        status, text = await running.ask(path)
        assert status == 200, (path, text)
        shown[endpoint.path] = json.loads(text)
    for path in ("/", "/fragment", f"/?engine={running.ids[BAD]}&engine={running.ids[GOOD]}", "/metrics"):
        status, text = await running.ask(path)
        assert status == 200, (path, text)
        assert BAD not in text
        shown[path] = text
    _, grouped = await running.ask("/api/v1/snapshot?group_by=target")
    shown["groups"] = json.loads(grouped)["groups"]
    return shown


def check_good(shown, running):
    """Check that whatever fails, the good items are on every page."""
    assert GOOD in {event["target"] for event in shown["/api/v1/events"]["events"]}
    snapshot, history = shown["/api/v1/snapshot"], shown["/api/v1/history"]
    assert running.ids[GOOD] in {engine["id"] for engine in snapshot["engines"]}
    assert running.ids[GOOD] in {engine["id"] for engine in history["engines"]}
    assert GOOD in {target["target"] for target in shown["/api/v1/targets"]["targets"]}
    assert GOOD in {group["labels"]["target"] for group in shown["groups"]}
    requests = shown["/api/v1/requests"]
    assert "chat" in {group["request_type"] for group in requests["groups"]}
    assert "chat" in {group["request_type"] for group in requests["since_start"]}
    assert "good" in {model["model_name"] for model in requests["models"]}
    for path in ("/", "/fragment"):
        assert f'id="e-{running.ids[GOOD]}"' in shown[path]
        assert ">chat<" in shown[path]
    drafts = [line for line in shown["/metrics"].splitlines() if line.startswith("spec_decode_drafts_total{")]
    assert any('target="good"' in line for line in drafts)
    assert 'spec_decode_request_saved_tokens_total{model_name="good",request_type="chat"' in shown["/metrics"]


@pytest.mark.parametrize("injection", INJECTIONS)
async def test_an_item_that_fails_is_omitted_and_logged_once_until_it_works_again(running, clock, injection):
    before = await look(running)
    check_good(before, running)
    assert not running.failures()
    with ExitStack() as stack:
        INJECTIONS[injection](stack)
        for _ in range(3):
            await clock.advance(12.0)
            shown = await look(running)
            check_good(shown, running)
    found = running.failures()
    assert found, "nothing failed"
    assert len(set(found)) == len(found)
    assert {event for event, *_ in found} == {"internal_error"}
    await clock.advance(RECOVERED_AFTER + 12.0)
    await look(running)
    await clock.advance(12.0)
    after = await look(running)
    check_good(after, running)
    recovered = running.failures()[len(found) :]
    assert len(recovered) == len(found)
    assert all(event.endswith("_ended") for event, *_ in recovered)
    assert "Cannot be shown" not in after["/"]
    assert running.ids[BAD] in {engine["id"] for engine in after["/api/v1/snapshot"]["engines"]}
