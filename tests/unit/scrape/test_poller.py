"""Polls of one target: which page, failures, intervals, details of the server, and pages that cost much."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, MutableMapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qsl, urlsplit

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.config.schema import Poll
from spec_decode_exporter.core.tasks import cancel
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.scrape.client import HttpResponse
from spec_decode_exporter.scrape.engines import Counter
from spec_decode_exporter.scrape.errors import PageError, PollError, StatusError
from spec_decode_exporter.scrape.poll_record import Polled, PollRecord
from spec_decode_exporter.scrape.poller import LARGE_PAGE, PERMITS, TARGET_SHARE, PollBudget, Poller
from spec_decode_exporter.scrape.server_info import ServedSpeculation
from tests.conftest import FakeClock
from tests.paths import DATA

PAGES = DATA / "pages"
ROUTERS = PAGES / "routers"
NGRAM = (PAGES / "vllm-0.32.0-python-ngram-k4.prom").read_bytes()
URL = "http://vllm:8000/metrics"


@dataclass
class Server:
    """A simulated vLLM: the client of its pollers, which records their requests, and the receiver of its pages."""

    clock: FakeClock
    page: bytes = NGRAM
    filtered: bytes | Exception | None = None  # in the place of the selected lines
    version: bytes | Exception = b'{"version":"0.32.0"}'
    info: bytes | Exception = field(default_factory=lambda: StatusError(404))
    failure: Exception | None = None
    seconds: float = 0.001
    cost: float = 0.0  # processor seconds that a request takes
    spent: float = 0.0
    asked: list[str] = field(default_factory=list)
    limits: dict[str, int | None] = field(default_factory=dict)
    received: list[Polled] = field(default_factory=list)
    restarted: Mock = field(default_factory=lambda: Mock(return_value=False))  # asked after each page

    async def get(self, url: str, *, max_body: int | None = None) -> HttpResponse:
        self.asked.append(url)
        self.limits[url] = max_body
        self.spent += self.cost
        body = self.page
        if self.failure:
            body = self.failure
        elif url.endswith("/version"):
            body = self.version
        elif "/server_info?" in url:
            body = self.info
        elif names := {value.encode() for name, value in parse_qsl(urlsplit(url).query) if name == "name[]"}:
            lines = self.page.splitlines(keepends=True)
            selected = b"".join(line for line in lines if line.split(b"{")[0].split(b" ")[0] in names)
            body = selected if self.filtered is None else self.filtered
        if isinstance(body, Exception):
            raise body
        if max_body is not None and len(body) > max_body:
            raise PollError("too_large", "the body is too large")
        return HttpResponse(body, "text/plain", self.seconds)

    def kinds(self) -> list[str]:
        """Return the requests since the last call: whole, few, many (with buckets), version or info."""
        asked, self.asked = self.asked, []
        return [
            "version" if url.endswith("/version")
            else "info" if "/server_info?" in url
            else "whole" if "name[]" not in url
            else "many" if "_bucket" in url else "few"
            for url in asked
        ]  # fmt: skip

    def receive(self, polled: Polled) -> Generator[None, None, bool]:
        self.received.append(polled)
        yield
        return self.restarted()

    def poller(
        self, *, record=None, shortest_window=30.0, budget=None, attempted=lambda: None, **poll
    ) -> Poller:
        """Make a poller of the server; ``poll`` has its settings."""
        clock = self.clock
        return Poller(
            "vllm",
            URL,
            client=self,
            poll=Poll.model_validate(poll),
            shortest_window=shortest_window,
            histogram_phase=0.0,
            budget=budget or PollBudget(),
            clock=clock,
            receive=self.receive,
            emit=lambda event: EventLog("1", clock.monotonic).record(event, clock.wall(), {"target": "vllm"}),
            attempted=attempted,
            record=record or PollRecord(),
        )

    async def polls(self, poller: Poller, number: int) -> list[MutableMapping[str, Any]]:
        """Poll each second; return the log."""
        with capture_logs() as logs:
            for _ in range(number):
                await poller.poll()
                await self.clock.advance(1)
        return logs


@pytest.fixture
def server(clock):
    return Server(clock)


@pytest.fixture
async def running():
    """Tasks of a test, cancelled at its end."""
    tasks = []
    yield tasks
    await cancel(tasks)


# Which page.


FIRST = ["whole", "version", "info"]  # requests of the first poll
NO_FILTERED_PAGE = {
    "empty": b"",
    "partial": b'vllm:spec_decode_num_drafts_total{engine="0",model_name="tiny-llama"} 41.0\n',
    "the engine of another model": b'vllm:spec_decode_num_drafts_total{engine="0",model_name="other"} 1.0\n',
    "not found": StatusError(404),
    "redirected": StatusError(307, "login.example"),
    "html": b"<html>no</html>\n",
    "too large": PollError("too_large", "the body has more bytes"),
    "cut off": NGRAM[:2000],
}


@pytest.mark.parametrize("answer", NO_FILTERED_PAGE.values(), ids=NO_FILTERED_PAGE)
async def test_without_a_filtered_page_the_same_poll_requests_the_whole_one(server, answer):
    server.filtered, drafts = answer, b'drafts_total{engine="0",model_name="tiny-llama"} '
    poller, logs = server.poller(), []
    for count in range(41, 56):
        server.page = NGRAM.replace(drafts + b"41.0", drafts + b"%d.0" % count)
        logs += await server.polls(poller, 1)
    # A page that is too large without a permit is asked for again with one.
    times = 2 if answer is NO_FILTERED_PAGE["too large"] else 1
    assert server.kinds() == [
        *FIRST, *["few"] * times, *["whole"] * 9, *["many"] * times, *["whole"] * 5
    ]  # fmt: skip
    seen = [polled.reading.samples["tiny-llama", "0"][Counter.DRAFTS] for polled in server.received]
    assert seen == list(range(41, 56))
    assert (poller.record.failures, poller.record.page) == ({}, "whole")
    assert [log["histograms"] for log in logs if log["event"] == "filtered_page_not_used"] == [False, True]


async def test_a_series_that_vanished_from_the_whole_page_too_does_not_make_the_filtered_one_incomplete(
    server,
):
    poller = server.poller()
    await server.polls(poller, 2)
    server.page = b"".join(line for line in NGRAM.splitlines(keepends=True) if b'position="3"' not in line)
    await server.polls(poller, 3)
    assert server.kinds() == [*FIRST, "few", "few", "whole", "few", "few"]


@pytest.mark.parametrize("reason", ["refused", "timeout", "tls", "dns"])
async def test_a_server_that_closes_filtered_requests_soon_gets_none(server, reason):
    server.filtered = PollError(reason, "no")
    poller = server.poller()
    await server.polls(poller, 8)
    assert server.kinds() == [*FIRST, "few", "whole", "few", *["whole"] * 4]
    assert poller.record.failures == {reason: 2}
    assert len(server.received) == 6


# Failures.


@pytest.mark.parametrize(
    ("failure", "reason"),
    [(PollError("refused", "refused"), "refused"), (StatusError(503), "status"), (PageError("html"), "malformed")],
)  # fmt: skip
async def test_failures_are_counted_by_reason_and_logged_when_they_begin_and_end(server, failure, reason):
    poller = server.poller()
    server.failure = failure
    target = {"event_id": "1-1", "target": "vllm"}
    assert await server.polls(poller, 5) == [
        {"event": "target_failing", "log_level": "warning", **target, "reason": reason, "error": str(failure)}
    ]
    assert poller.record.failures == {reason: 5}
    assert (poller.record.up, poller.record.error, poller.record.polls) == (False, reason, 5)
    server.failure = None
    assert await server.polls(poller, 5) == [
        {"event": "target_recovered", "log_level": "info", **target, "failed_polls": 5}
    ]
    assert (poller.record.up, poller.record.error, len(server.received)) == (True, "", 5)


@pytest.mark.parametrize(
    ("page", "remedy"),
    [
        (b"node_load1 0.5\n", "is it another program? Check port and path, for vLLM `http://HOST:8000/metrics`"),
        (b"python_info 1\nhttp_request_duration_highr_seconds_sum 1\n", "vLLM's statistics are off: start it without `--disable-log-stats`"),
        (b"# HELP a A\nray_node_cpu 1\n", "it is Ray's: set `log_engine_metrics` in the `LLMConfig`, and name the node that runs vLLM"),
        (b"spec_decode_exporter_build_info 1\n", "it is an exporter's page: name the server's, for vLLM `http://HOST:8000/metrics`"),
        (b"vllm:lora_requests_info 1\n", "it has none of the series that are read: update the exporter"),
        ((ROUTERS / "production-stack.prom").read_bytes(), "it is a router's page: name the servers, `http://10.244.1.17:8000`, `http://10.244.2.9:8000`, `http://10.244.3.4:8000`, …"),
        ((ROUTERS / "smg.prom").read_bytes(), "it is a router's page: name the servers, `http://127.0.0.1:30001`, `http://127.0.0.1:30002`"),
        ((ROUTERS / "sgl_router.prom").read_bytes(), "it is a router's page: name the servers, `http://10.0.0.7:30000`, `http://10.0.0.8:30000`"),
        ((ROUTERS / "vllm-router.prom").read_bytes(), "it is a router's page: name the servers, `http://127.0.0.1:8101`"),
        ((ROUTERS / "dynamo-frontend.prom").read_bytes(), "it is a router's page: name the workers, each with the port `DYN_SYSTEM_PORT`"),
        ((ROUTERS / "nim.prom").read_bytes(), "it is NIM's, which counts no drafts: serve the model by vLLM itself"),
        (b'vllm:current_qps{server="http://a`b:1"} 1\nvllm:current_qps{server="http://user:key@c"} 1\n', "it is a router's page: name the servers"),
    ],
)  # fmt: skip
async def test_a_page_without_a_known_engine_is_one_warning_with_its_case_and_no_failure(
    server, page, remedy
):
    known, server.page = server.page, page
    poller = server.poller()
    logs = await server.polls(poller, 3)
    assert [(log["event"], log["remedy"]) for log in logs] == [("no_engine_on_page", remedy)]
    assert (poller.record.up, poller.record.remedy) == (True, remedy)
    assert server.kinds() == ["whole", "whole", "whole"]
    server.page = known
    await server.polls(poller, 1)
    assert poller.record.remedy == ""


@pytest.mark.parametrize("crashing", ["client", "receiver"])
async def test_a_crash_is_logged_once_and_polling_goes_on(server, crashing):
    poller, defect = server.poller(), ZeroDivisionError("a defect")
    if crashing == "client":
        server.failure = defect
    else:
        server.restarted.side_effect = [defect, defect, False]
    logs = await server.polls(poller, 2)
    server.failure = None
    logs += await server.polls(poller, 1)
    assert [(log["event"], log["log_level"]) for log in logs] == [
        ("poll_crashed", "error"),
        ("target_failing", "warning"),
        ("target_recovered", "info"),
    ]
    assert logs[0]["exc_info"]
    assert (poller.record.failures, poller.record.up) == ({"malformed": 2}, True)


# When.


async def test_histograms_are_read_once_an_interval_also_over_a_reload_and_again_after_a_restart(server):
    record = PollRecord()
    server.restarted.side_effect = [page in {12, 25} for page in range(1, 29)]
    for number in (8, 20):
        await server.polls(server.poller(record=record), number)
    seen = [next(iter(polled.reading.samples.values())).latencies is not None for polled in server.received]
    assert [number for number, is_read in enumerate(seen) if is_read] == [0, 10, 12, 22, 25]


@pytest.mark.parametrize(("reason", "most"), [("refused", 5), ("timeout", 30), ("status", 30)])
async def test_a_failing_target_is_polled_with_exponential_back_off_that_a_success_ends(
    server, clock, running, reason, most
):
    polled_at, server.failure = [], PollError(reason, "no")
    poller = server.poller(filter="off", attempted=lambda: polled_at.append(clock.monotonic()))
    running.append(asyncio.create_task(poller.run()))
    await clock.advance(200)
    assert (poller.record.pace, poller.record.interval) == (most, 1)
    assert len(polled_at) == len(server.asked)
    gaps = [after - before for before, after in pairwise(polled_at)]
    assert gaps == pytest.approx([min(2**failures, most) for failures in range(len(gaps))])
    server.failure = None
    await clock.advance(most)
    server.asked.clear()
    await clock.advance(10)
    assert server.kinds() == ["whole"] * 10
    assert poller.record.pace == 1


# What the server is.


SERVED = b'{"vllm_config":{"speculative_config":{"method":"eagle3","model":"d","num_speculative_tokens":3}}}'


@pytest.mark.parametrize(
    ("second", "speculation"),
    [(SERVED, ServedSpeculation("eagle3", 3, "d")), (PollError("timeout", "late"), None)],
    ids=["answered", "late again"],
)
async def test_after_a_timeout_details_are_requested_once_more_a_minute_later(server, second, speculation):
    server.info = PollError("timeout", "late")
    poller = server.poller(histogram_interval="1000s")
    await server.polls(poller, 60)
    assert server.kinds().count("info") == 1
    server.info = second
    await server.polls(poller, 130)
    assert (poller.record.speculation, poller.record.up) == (speculation, True)
    assert server.kinds().count("info") == 1


@pytest.mark.parametrize(
    ("page", "info", "speculation"),
    [
        (
            "sglang.prom",
            b'{"speculative_algorithm":"EAGLE3","speculative_num_steps":4}',
            ServedSpeculation("eagle3", 4),
        ),
        ("tensorrt_llm.prom", StatusError(404), ServedSpeculation("eagle3", 3, "/models/eagle3")),
        ("llamacpp.prom", SERVED, None),
    ],
)
async def test_other_engines_tell_their_settings_beside_the_metrics_or_among_them(
    server, page, info, speculation
):
    server.page, server.info = (PAGES / page).read_bytes(), info
    poller = server.poller()
    await server.polls(poller, 3)
    assert (poller.record.speculation, poller.record.up) == (speculation, True)
    assert server.kinds().count("info") == (page == "sglang.prom")


@pytest.mark.parametrize(
    ("page", "gauge"), [("sglang.prom", b"num_running"), ("tensorrt_llm.prom", b"num_requests_run")]
)
async def test_series_that_appear_when_the_first_request_ends_are_on_the_filtered_page(server, page, gauge):
    whole = (PAGES / page).read_bytes()
    server.page = b"".join(line for line in whole.splitlines(keepends=True) if gauge in line)
    poller = server.poller()
    await server.polls(poller, 3)
    [idle] = server.received[-1].reading.samples.values()
    assert (idle[Counter.DRAFTS], server.kinds()[-1]) == (None, "few")
    server.page = whole
    await server.polls(poller, 3)
    [ended] = server.received[-1].reading.samples.values()
    assert ended[Counter.DRAFTS] > 0
    assert ended[Counter.FIRST_TOKENS] in {39, 60}
    assert server.kinds()[-1] == "few"


# Pages that cost much.


async def test_pages_that_fail_cost_too(server):
    server.cost, server.page = 0.2, b"vllm:num_requests_running 1 1 1 1\n"
    poller = server.poller()
    await server.polls(poller, 10)
    assert poller.record.error == "malformed"
    assert poller.record.cost == pytest.approx(0.2, rel=0.6)


LARGE = NGRAM + b"#" * LARGE_PAGE + b"\n"


async def test_a_large_page_is_requested_again_with_a_permit_and_then_only_with_one(server):
    server.page = LARGE
    poller = server.poller(filter="off")
    await server.polls(poller, 3)
    # The first poll has histograms; without them the page is large in its own right.
    assert server.kinds() == ["whole", *FIRST, "whole", "whole", "whole"]
    assert server.limits[URL] is None
    assert len(server.received) == poller.record.polls == 3
    server.page = NGRAM
    await server.polls(poller, 2)
    assert server.limits[URL] == LARGE_PAGE
    assert len(server.received) == 5


async def test_large_pages_beyond_the_permits_wait_and_the_wait_is_in_the_interval(server, clock):
    server.page, budget = LARGE, PollBudget()
    poller = server.poller(filter="off", budget=budget)
    for _ in range(PERMITS):
        await budget.permits.acquire()
    waiting = asyncio.create_task(poller.poll())
    await clock.advance(40)
    assert poller.record.size is None
    budget.permits.release()
    await waiting
    assert (poller.record.interval, poller.record.size) == (40.0, len(LARGE))
    server.failure = PollError("refused", "no")
    await poller.poll()  # the permit was given back
    assert poller.record.interval == 1.0


# Longer intervals.


@pytest.mark.parametrize(
    ("seconds", "cost", "interval", "cause"),
    [
        *((seconds, 0.0, interval, "answers" if interval > 1 else None)
          for seconds, interval in ((0.0, 1), (0.01, 1), (0.0101, 2), (0.02, 2), (0.025, 3), (9.0, 100))),
        (0.001, 0.5 * TARGET_SHARE, 1, None),
        (0.001, 4 * TARGET_SHARE, 4, "processing"),
        (0.05, 4 * TARGET_SHARE, 5, "answers"),
        (0.05, 9 * TARGET_SHARE, 9, "processing"),
        (0.001, 110.0, 2200, "processing"),  # beyond a sixth of the window: processor time is for all targets
    ],
)  # fmt: skip
async def test_the_interval_and_its_cause_are_those_of_what_takes_more_than_its_share(
    server, seconds, cost, interval, cause
):
    server.seconds, record = seconds, PollRecord(cost=cost)
    poller = server.poller(filter="off", record=record, shortest_window=600.0)
    logs = await server.polls(poller, 1)
    assert record.interval == interval
    assert [log["cause"] for log in logs if log["event"] == "target_polled_less_often"] == [cause] * (
        cause is not None
    )


@pytest.mark.parametrize(("window", "interval"), [(30.0, 5), (3.0, 1), (45.0, 7)])
async def test_the_interval_is_at_most_a_sixth_of_the_shortest_window(server, window, interval):
    server.seconds = 0.9
    poller = server.poller(shortest_window=window)
    await server.polls(poller, 3)
    assert poller.record.interval == interval


async def test_single_late_responses_do_not_count_and_lasting_ones_do(server):
    poller = server.poller(shortest_window=3600.0)
    for number in range(200):
        server.seconds = 0.5 if number % 10 else 0.005
        await server.polls(poller, 1)
        assert poller.record.interval == 1
    server.seconds = 0.5
    await server.polls(poller, 300)
    assert poller.record.interval == 50


async def test_a_longer_interval_is_logged_when_it_begins_and_again_after_ten_minutes_without(server):
    poller, logs = server.poller(), []
    for seconds, number in [(0.9, 300), (0.001, 300), (0.9, 200), (0.001, 700), (0.9, 200)]:
        server.seconds = seconds
        logs += [(log["event"], log["cause"], log["interval"]) for log in await server.polls(poller, number)]
    assert len(logs) == 2


async def test_a_poller_that_ends_leaves_its_part_of_the_budget_to_the_others(server, clock, running):
    server.cost, budget = 5.0, PollBudget()
    running.append(asyncio.create_task(server.poller(budget=budget).run()))
    await clock.advance(30)
    for other in range(10):
        budget.interval(other, 0.05, 1.0)
    assert budget.interval(0, 0.05, 1.0) == pytest.approx(1.1)
    await cancel(running)
    assert budget.interval(0, 0.05, 1.0) == pytest.approx(1.0)
