"""Some engines, targets, experiments and requests fail: every page serves all others, and the log names each once.

Each fault of an engine or a target has a target of its own, so that all faults are in one run.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from unittest.mock import patch

import pytest

from spec_decode_exporter.monitor.event_log import RecordedEvent
from spec_decode_exporter.monitor.snapshot import id_of
from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.web.api import ENDPOINTS
from tests.fakes.simulated import Server
from tests.service.conftest import Story, exporter
from tests.unit.requests.test_record import RECORD

GOOD, HOSTILE = "good", "<img src=x onerror=alert({})>\"'${{version}}"
LIGHT = Scenario.model_validate({"load": {"concurrency": 2}})
CONFIG = """
windows: [10s, 30s]
poll: {interval: 3s}
metrics: {profile: full}
requests: {ingest: true}
log: {summary_interval: 10s}
"""


@dataclass
class Fault:
    """A change of the function or property at a place: it raises where it is about a bad item."""

    place: str
    is_bad: Callable | None = None
    """Takes the bad name and the arguments; without it, all are bad."""
    hits: int = 0

    def start(self, stack, bad):
        self.hits = 0
        original, _ = patch(f"spec_decode_exporter.{self.place}").get_original()
        own = getattr(original, "fget", None) or getattr(original, "func", None)
        function = own or getattr(original, "__func__", original)

        def fails(*args, **kwargs):
            if self.is_bad is None or self.is_bad(bad, *args, **kwargs):
                self.hits += 1
                raise RuntimeError("injected")
            return function(*args, **kwargs)

        stack.enter_context(patch(f"spec_decode_exporter.{self.place}", property(fails) if own else fails))


TARGET_OF = {}  # the target of each engine monitor, and of what it has learned, by identity


def owned(bad, one, *_, **__):
    return TARGET_OF.get(id(one)) == bad


def labelled(bad, labels, *_, **__):
    return labels.get("target") == bad


def viewed(bad, *arguments):
    """The engine or its view is the last argument."""
    return arguments[-1].target == bad


def of_bad_group(_, record, __):
    key = getattr(record, "key", None)
    return key is not None and key.request_type == "bad"


OF_TARGETS = {
    # On the page; the first are opened there.
    "details": Fault("web.fleet.EngineView.resets", viewed),
    "row": Fault("web.fleet.Events.of", viewed),
    # In the monitors.
    "snapshot": Fault("monitor.engine_monitor.EngineMonitor.snapshot", owned),
    "sample": Fault("monitor.engine_monitor.EngineMonitor.observe", owned),
    "evaluation": Fault("monitor.engine_monitor.EngineMonitor._evaluated", owned),
    # In the API and the metrics.
    "JSON": Fault("web.api.EngineView", labelled),
    "JSON of an event": Fault("web.api.encoded", lambda bad, view: isinstance(view, RecordedEvent) and view.target == bad),
    "lines": Fault("metrics.page._View.lines", lambda bad, view, *_: labelled(bad, view.labels)),
}  # fmt: skip
OF_PAGES = {
    "headline": Fault("web.page.headline"),
    "section of targets": Fault("web.page.render", lambda _, template, **__: template == "targets.html"),
}
OF_EXPERIMENTS_AND_REQUESTS = {
    "comparison": Fault("monitor.fleet.compare", lambda _, settings, *__: settings.name == "bad"),
    "JSON of an experiment": Fault("views.fleet_view._experiment", lambda _, name, *__: name == "worse"),
    "lines": Fault("metrics.page._View.lines", lambda _, view, *__: "bad" in (view.labels.get("experiment"), view.labels.get("request_type"))),
    "model": Fault("requests.store.model_findings", lambda _, name, *__: name == "bad"),
    "JSON of a group": Fault("views.document._Extended", of_bad_group),
}  # fmt: skip
SENT = [
    {**RECORD, "model": model, "request_type": kind}
    for model, kind in (
        ("good", "chat"),
        ("good", "chat"),
        *[("good", "bad")] * 3,
        ("bad", "chat"),
        ("worse", "chat"),
    )
]


@dataclass
class Running:
    """A running exporter with a good target and bad ones."""

    told: Story
    bad: list
    ids: dict
    """The id of the engine of each target."""

    def failures(self):
        """Return each report: its part and its item."""
        names = ("target", "experiment", "arm", "request_type", "model_name")
        return [(log["part"], *map(log.get, names)) for log in self.told.told("internal_error")]

    async def look(self):
        """Request every page; check that the good items are on each, whatever fails. Return the first page."""
        ids, shown = self.ids, {}
        status, text = await self.told.ask("api/v1/requests", "POST", json=SENT)
        assert status == 200, text
        for endpoint in ENDPOINTS:
            if endpoint.method == "GET":
                shown[endpoint.path] = await self.told.json(endpoint.path.replace("{engine_id}", ids[GOOD]))
        opened = "&".join(f"engine={ids[name]}" for name in [*self.bad[:7], GOOD])
        for path in ("/", "/fragment", f"/?{opened}", "/metrics"):
            shown[path] = await self.told.get(path)
            assert path == "/metrics" or HOSTILE[:10] not in shown[path]
        api = {name: shown[f"/api/v1/{name}"] for name in ("events", "snapshot", "targets", "requests")}
        assert GOOD in {event["target"] for event in api["events"]["events"]}
        assert ids[GOOD] in {engine["id"] for engine in api["snapshot"]["engines"]}
        assert GOOD in {target["target"] for target in api["targets"]["targets"]}
        assert "chat" in {group["request_type"] for group in api["requests"]["groups"]}
        assert "good" in {model["model_name"] for model in api["requests"]["models"]}
        for path in ("/", "/fragment"):
            assert f'id="e-{ids[GOOD]}"' in shown[path]
            assert ">chat<" in shown[path]
        metrics = shown["/metrics"]
        lines = [line for line in metrics.splitlines() if line.startswith("spec_decode_drafts_total{")]
        assert any('target="good"' in line for line in lines)
        assert 'spec_decode_request_saved_tokens_total{model_name="good",request_type="chat"' in metrics
        return shown


@asynccontextmanager
async def running(tmp_path, clock, network, bad, experiments):
    """Run an exporter with a good target, some bad ones, and experiments."""
    targets = "targets:\n"
    for name, host in ((GOOD, "good"), *((name, f"bad-{number}") for number, name in enumerate(bad))):
        network.servers[f"{host}:8000"] = Server(clock, LIGHT, running=60)
        quoted = json.dumps(name.replace("$", "$$"))
        targets += f"  - {{url: 'http://{host}:8000/metrics', name: {quoted}}}\n"
    arms = "arms: {a: {match: {name: good}}, b: {match: {name: other}}}"
    comparisons = "".join(f"  - {{name: {name}, baseline: a, {arms}}}\n" for name in experiments)
    state = f"state: {{file: {tmp_path}/state.json, interval: 10s}}\n"
    async with exporter(tmp_path, clock, f"{targets}{CONFIG}{state}experiments:\n{comparisons}") as told:
        await clock.advance(35.0)
        ids = {}
        TARGET_OF.clear()
        for watch in told.service.fleet:
            for engine in watch.engines.values():
                ids[watch.target.name] = id_of(engine.labels)
                for part in (engine, engine.history, engine.learned):
                    TARGET_OF[id(part)] = watch.target.name
        yield Running(told, bad, ids)


@pytest.mark.parametrize(
    ("faults", "has_targets", "experiments"),
    [
        (OF_TARGETS, True, ("good",)),
        (OF_PAGES, False, ("good",)),
        (OF_EXPERIMENTS_AND_REQUESTS, False, ("good", "bad", "worse")),
    ],
    ids=["of targets", "of pages", "of experiments and requests"],
)
async def test_what_fails_is_omitted_and_logged_once_until_it_works(
    tmp_path, clock, network, faults, has_targets, experiments
):
    bad = [HOSTILE.format(number) for number in range(len(faults) if has_targets else 1)]
    async with running(tmp_path, clock, network, bad, experiments) as run:
        await run.look()
        assert not run.failures()
        with ExitStack() as stack:
            for number, fault in enumerate(faults.values()):
                fault.start(stack, bad[number if has_targets else 0])
            for _ in range(2):
                await clock.advance(12.0)
                await run.look()
        found = run.failures()
        assert [name for name, fault in faults.items() if not fault.hits] == []
        assert len(set(found)) == len(found) > 0
        if has_targets:
            assert {target for _, target, *_ in found} - {None} == set(bad)
        await clock.advance(12.0)
        after = await run.look()
        assert run.failures() == found
    assert "Cannot be shown" not in after["/"]
    assert set(map(run.ids.get, bad)) <= {engine["id"] for engine in after["/api/v1/snapshot"]["engines"]}
