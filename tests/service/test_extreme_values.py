"""Any numbers that a server's page may have go through every stage: nothing raises, every number is finite."""

import asyncio
import json
from dataclasses import dataclass
from itertools import accumulate, cycle, islice
from math import isfinite
from types import SimpleNamespace
from unittest.mock import AsyncMock, Mock, patch

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from pydantic_core import to_json
from structlog.testing import capture_logs

from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.metrics.negotiation import Format
from spec_decode_exporter.metrics.page import MetricsPage
from spec_decode_exporter.monitor.fleet import Fleet, summary_line
from spec_decode_exporter.monitor.snapshot import id_of
from spec_decode_exporter.monitor.state import parsed_state
from spec_decode_exporter.monitor.target_monitor import Shared
from spec_decode_exporter.reports.exit_status import observation_status
from spec_decode_exporter.reports.observation import observation_of
from spec_decode_exporter.reports.observation_report import json_report, report
from spec_decode_exporter.reports.text import TextStyle
from spec_decode_exporter.scrape.client import HttpResponse
from spec_decode_exporter.scrape.engines import ENGINES, HISTOGRAMS, EngineMark, Gauge
from spec_decode_exporter.scrape.errors import PollError
from spec_decode_exporter.scrape.sample import MAX_COUNT, MAX_GAUGES
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.views.fleet_view import experiment_views, target_view
from spec_decode_exporter.views.request_view import lists
from spec_decode_exporter.web.fleet import PageQuery
from spec_decode_exporter.web.page import content, page_facts
from spec_decode_exporter.web.state import ExporterState
from tests.conftest import FakeClock
from tests.fakes.saved_state import document_of
from tests.unit.metrics.written_page import EVERYTHING

MOST = MAX_COUNT - 1
FAILURES = {"internal_error", "poll_crashed", "task_died"}
READ = {
    f"{kind.prefixes[0]}{names[0]}": quantity
    for kind in ENGINES
    for quantity, names in kind.names.items()
    if quantity is not EngineMark.V0
}
"""The series that are read, by name."""
BOUNDS = ("0", "1e-320", "0.001", "0.3", "1", "1e9", "+Inf")
POSITIONS = 4
BY_POSITION = {EngineMark.POSITION_ACCEPTED, EngineMark.POSITION_DRAFTED}

PAGES = 14

STEPS = (
    *(0, 1, 7, 30, 1000, 2**31, 2**50, 2**51, 2**52, -15, 0.1, 2.5, 1e-9, 1e-12, 1e-320),
    *(2_300_000_000, 4_611_686_018, 4_611_686_019),
)
"""How far a counter moves from one page to the next; sums of the last seconds are near 2^62 ns."""
MOST_REQUESTS = MAX_GAUGES[Gauge.RUNNING_REQUESTS]
SHOWN = (
    0,
    0.5,
    1,
    30,
    256,
    "NaN",
    "+Inf",
    "-Inf",
    -5,
    1e300,
    1.7976931348623157e308,
    1e-320,
    5e-324,
    MOST_REQUESTS,
)
"""What a gauge shows."""
CREATED = (None, 0.0, -1e308, 1e308, 1_789_999_999.0, 1_790_000_003.5)
PASSED = ((1.0,), (0.0,), (1.0, 0.0, 1e-12, 1e-9, 1e-7), (1.0, 1.0, 1.0, 1.0, 45.0, 1.0, 1.0, 1e6))
"""Seconds from one page to the next. As with the others, these come again and again."""


def values(quantity, numbers):
    """The values of one series on each page."""
    if quantity is EngineMark.CREATED:
        return [numbers] * PAGES
    repeated = islice(cycle(numbers), PAGES)
    if isinstance(quantity, Gauge):
        return list(repeated)
    return [min(max(value, 0), MOST) for value in accumulate(repeated)]


def numbers_of(quantity):
    """What the values of a quantity are made of, or those of each of its positions or buckets."""
    if quantity is EngineMark.CREATED:
        return st.sampled_from(CREATED)
    own = SHOWN if isinstance(quantity, Gauge) else STEPS
    numbers = st.lists(st.sampled_from(own), min_size=1, max_size=4)
    if quantity in BY_POSITION or quantity in HISTOGRAMS:
        return st.lists(numbers, max_size=POSITIONS if quantity in BY_POSITION else len(BOUNDS))
    return numbers


SERVERS = st.one_of(
    st.fixed_dictionaries(
        {}, optional={name: numbers_of(READ[name]) for name in READ if name.startswith(kind.prefixes[0])}
    )
    for kind in (ENGINES[0], *ENGINES)
)
"""Servers of one kind: which series they have, and how these grow."""


def pages_of(server):
    """The pages of a server."""
    lines = [[] for _ in range(PAGES)]
    for name, numbers in server.items():
        quantity = READ[name]
        each = [("", numbers)]
        if quantity in BY_POSITION:
            each = [(f',position="{position}"', one) for position, one in enumerate(numbers)]
        elif quantity in HISTOGRAMS:
            each = [(f',le="{bound}"', one) for bound, one in zip(reversed(BOUNDS), numbers, strict=False)]
        for label, one in each:
            for page, value in zip(lines, values(quantity, one), strict=True):
                if value is not None:
                    page.append(f'{name}{{engine="0",model_name="m"{label}}} {value}')
    return ["\n".join(["# page", *page, ""]).encode() for page in lines]


@dataclass
class Script:
    """Answers with the page at a place; there is nothing else at the server."""

    pages: list
    place: int = 0
    spent: float = 0.0

    async def get(self, url, *, max_body=None):
        if "metrics" not in url:
            raise PollError("refused", "not here")
        return HttpResponse(self.pages[self.place], "text/plain", 0.0)


TARGETS = [
    Target(f"http://{number}/metrics", f"t{number}", (("zone", "z"),), method_label="eagle3")
    for number in range(2)
]
CONFIG = Config.model_validate(
    {
        "windows": ("5s", "10s"),
        "poll": {"filter": "off", "histogram_interval": "1s"},
        "policy": {"min_drafts": 1},
        "requests": {"ingest": True},
        "experiments": [
            {
                "name": "x",
                "baseline": "off",
                "arms": {"off": {"match": {"name": "t0"}}, "on": {"match": {"name": "t1"}}},
            }
        ],
    }
)


async def publish(state):
    """Make everything that anybody could read now, and check it."""
    taken = await state.take()
    page = MetricsPage(lambda: EVERYTHING, state.errors)
    pieces = [piece async for piece in page.render(taken, Format.OPENMETRICS_1_0_0)]
    for family in text_string_to_metric_families(b"".join(pieces).decode()):
        for sample in family.samples:
            assert isfinite(sample.value), sample
    models = [
        *(EngineView(labels=labels, snapshot=snapshot) for labels, snapshot in taken.engines),
        *experiment_views(taken.experiments, state.errors, "page"),
        *(target_view(status) for _, status in taken.targets),
        *(view for views in lists(taken.requests, state.errors).values() for view in views),
    ]
    fleet, now = state.fleet, state.clock.monotonic()
    observed = observation_of(
        state.clock.wall(),
        7.0,
        tuple(each for watch in fleet for each in watch.snapshots_over(7.0, now)),
        tuple(target_view(watch.status()) for watch in fleet),
        events=state.events.kept,
        errors=state.errors,
    )
    observation_status(observed)
    assert "internal error" not in report(observed, TextStyle())
    for text in (
        *(model.model_dump_json() for model in (*models, observed)),
        *map(to_json, state.events.kept),
        *(json.dumps(summary_line(labels, snapshot)) for labels, snapshot in taken.engines),
        json_report(observed),
    ):
        numbers = []
        json.loads(text, parse_constant=numbers.append, parse_float=numbers.append, parse_int=numbers.append)
        assert all(isfinite(float(number)) for number in numbers), text[:2000]
    await _check_page(taken, state)


async def _check_page(taken, state):
    parts = {"clock": state.clock, "events": state.events, "errors": state.errors}
    snapshot, windows = AsyncMock(return_value=taken), Mock(return_value=["7s"])
    shown = SimpleNamespace(version="1", snapshot=snapshot, windows=windows, **parts)
    opened = tuple(id_of(labels) for labels, _ in taken.engines)
    html = str(await content(state.errors, await page_facts(shown, PageQuery("", opened))))
    for word in ("Cannot be shown", '"nan"', '"inf"', '"-inf"', ">nan", ">inf", "NaN", "Infinity"):
        assert word not in html, word


async def told(passed, servers):
    """Watch two targets of which each poll reads the next page; publish now and then."""
    clock, scripts = FakeClock(), [Script(pages_of(server)) for server in servers]
    fleet = Fleet(CONFIG, Shared(clock))
    with (
        capture_logs() as logs,
        patch("spec_decode_exporter.monitor.target_monitor.Client", side_effect=scripts),
    ):
        fleet.watch(TARGETS)
        state = ExporterState(fleet)
        pollers = [watch.poller() for watch in fleet]
        for place, seconds in enumerate(islice(cycle(passed), PAGES)):
            clock.now += seconds
            for script, poller in zip(scripts, pollers, strict=True):
                script.place = place
                await poller.poll()
                assert poller.record.up, poller.record.message
            if place in (2, 8):
                await publish(state)
        await publish(state)
        fleet.remember()
        parsed_state(document_of(fleet.shared.remembered, clock.wall()))
        clock.now += 60.0
        await publish(state)  # of engines that are gone
    failed = [log for log in logs if log["event"] in FAILURES]
    if failed:
        raise AssertionError(failed[0]) from failed[0].get("exc_info")


GROWING = {
    EngineMark.CREATED: None,
    EngineMark.POSITION_ACCEPTED: [[2**51]] * POSITIONS,
    **{histogram: [[2**51], [1]] for histogram in HISTOGRAMS},
    **{gauge: [MOST_REQUESTS] for gauge in Gauge},
}
ALL_GROW = {
    name: GROWING.get(quantity, [2_300_000_000])
    for name, quantity in READ.items()
    if name.startswith("vllm:")
}
"""A server of which every counter grows, in seconds beyond 2^62 ns, and every gauge is the most."""


IN_THE_LAST_BUCKET = {"vllm:e2e_request_latency_seconds_bucket": [[0, 0, 4_611_686_018]]}


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@example(PASSED[0], [ALL_GROW] * 2)
@example(PASSED[0], [ALL_GROW | IN_THE_LAST_BUCKET, {}])
@given(st.sampled_from(PASSED), st.lists(SERVERS, min_size=2, max_size=2))
def test_any_numbers_of_a_page_raise_nothing_and_stay_finite(passed, servers):
    asyncio.run(told(passed, servers))
