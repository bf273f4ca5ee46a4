from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.analysis.cost import Cost
from spec_decode_exporter.analysis.cost_source import CostSource
from spec_decode_exporter.analysis.step_cost import StepCost
from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.request_receiver import RequestReceiver, costs_of
from spec_decode_exporter.requests.request_batch import NotJsonError
from spec_decode_exporter.requests.request_findings import RequestFindings
from spec_decode_exporter.requests.request_record import Refusal
from spec_decode_exporter.requests.request_store import RequestStore
from spec_decode_exporter.requests.request_types import RequestTypes
from tests.requests.test_request_batch import RECORD, changed

SETTINGS = RequestSettings(ingest=True, rate=100)


class Monitor:
    """Stand-in for the monitor of a target whose engines have a cost."""

    def __init__(self, name, *costs):
        self.target = self
        self.name = name
        self._costs = costs

    def costs(self):
        return iter(self._costs)


class Fleet(list):
    """Stand-in for a fleet of monitors."""

    config = Config()

    def __init__(self, *monitors):
        super().__init__(*monitors)
        self.request_types = RequestTypes()


@pytest.fixture
def events():
    return EventLog("a1")


@pytest.fixture
def receiver(clock, events):
    return RequestReceiver(SETTINGS, Fleet(), events, clock)


def body(*records):
    return json.dumps(records).encode()


async def test_taken_requests_are_in_the_findings(receiver):
    batch = await receiver.take(body(RECORD, changed("metrics", None)), lines=False)
    assert (len(batch.requests), batch.refused) == (1, {Refusal.WITHOUT_METRICS: 1})
    found = await receiver.findings()
    assert (found.enabled, found.taken, found.refused[Refusal.WITHOUT_METRICS]) == (True, 1, 1)
    assert list(found.windows) == ["30s", "5m"]


async def test_taken_requests_are_summed_by_type_for_the_drop_detectors(receiver):
    await receiver.take(body(RECORD, RECORD), lines=False)
    ((model_name, target),) = receiver._fleet.request_types._sums
    (sums,) = receiver._fleet.request_types.totals(model_name, target).values()
    one = RECORD["metrics"]["speculative_decoding"]
    assert sums == (2 * one["num_spec_steps"], 2 * one["num_accepted_draft_tokens"])


async def test_without_ingest_the_findings_are_empty(receiver):
    await receiver.take(body(RECORD), lines=False)
    receiver.adopt(RequestSettings())
    assert not receiver.is_open
    assert await receiver.findings() == RequestFindings()


async def test_a_reload_keeps_counted_requests_unless_the_labels_change(receiver):
    await receiver.take(body(RECORD), lines=False)
    receiver.adopt(RequestSettings())
    receiver.adopt(SETTINGS.model_copy(update={"rate": 7}))
    assert (await receiver.findings()).taken == 1
    receiver.adopt(SETTINGS.model_copy(update={"temperatures": (0.5,)}))
    assert (await receiver.findings()).taken == 0


async def test_a_window_in_which_a_reload_closed_the_receiver_is_partial(receiver, clock):
    await receiver.findings()
    clock.now += 1000
    assert not (await receiver.findings()).windows["5m"].partial
    receiver.adopt(SETTINGS.model_copy(update={"rate": 7}))
    assert not (await receiver.findings()).windows["5m"].partial
    receiver.adopt(RequestSettings())
    receiver.adopt(SETTINGS)
    assert (await receiver.findings()).windows["30s"].partial


async def test_a_reload_may_change_the_rate(receiver):
    receiver.adopt(SETTINGS.model_copy(update={"rate": 7}))
    batch = await receiver.take(body(*[RECORD] * 10), lines=False)
    assert (len(batch.requests), batch.refused) == (7, {Refusal.RATE: 3})
    assert (await receiver.findings()).refused == {Refusal.RATE: 3}


async def test_refusals_are_logged_at_most_once_a_minute_with_their_sum(receiver, clock):
    async def refused():
        with capture_logs() as logged:
            await receiver.take(body(7, changed("metrics", None)), lines=False)
        return logged

    (line,) = await refused()
    assert (line["event"], line["malformed"], line["without_metrics"]) == ("requests_refused", 1, 1)
    clock.now += 59
    assert await refused() == []
    clock.now += 1
    (line,) = await refused()
    assert (line["malformed"], line["without_metrics"], line["contradictory"], line["rate"]) == (2, 2, 0, 0)
    assert (line["dropped"], line["body"], line["status"]) == (0, 0, None)


async def test_requests_that_a_sender_dropped_are_refused_and_logged(receiver):
    with capture_logs() as logged:
        batch = await receiver.take(body(RECORD), lines=False, unsent={Refusal.DROPPED: 7})
    assert (len(batch.requests), batch.refused) == (1, {Refusal.DROPPED: 7})
    found = await receiver.findings()
    assert (found.taken, found.refused) == (1, {Refusal.DROPPED: 7})
    (line,) = logged
    assert (line["event"], line["dropped"], line["malformed"]) == ("requests_refused", 7, 0)


@pytest.mark.parametrize("refused", [b"nonsense", body(*[RECORD] * 3)], ids=["no JSON", "above the rate"])
async def test_dropped_requests_count_only_with_a_body_that_is_taken(receiver, clock, refused):
    """A sender repeats their number after 400 and 429, until a body is taken."""
    await receiver.take(body(*[RECORD] * SETTINGS.rate), lines=False)
    with contextlib.suppress(NotJsonError):
        assert (await receiver.take(refused, lines=False, unsent={Refusal.DROPPED: 7})).above_the_rate
    assert Refusal.DROPPED not in (await receiver.findings()).refused
    clock.now += 1
    await receiver.take(body(RECORD), lines=False, unsent={Refusal.DROPPED: 7})
    assert (await receiver.findings()).refused[Refusal.DROPPED] == 7


async def test_a_body_above_the_rate_counts_only_when_it_is_taken(receiver, clock):
    """The same body arrives three times and is counted once."""
    await receiver.take(body(*[RECORD] * SETTINGS.rate), lines=False)
    again = body(RECORD, 7, RECORD)
    with capture_logs() as logged:
        for _ in range(2):
            assert (await receiver.take(again, lines=False)).above_the_rate
    assert logged == []
    assert (await receiver.findings()).refused == {}
    clock.now += 1
    await receiver.take(again, lines=False)
    found = await receiver.findings()
    assert (found.taken, found.refused) == (SETTINGS.rate + 2, {Refusal.MALFORMED: 1})


async def test_a_rejected_body_counts_as_one_and_is_logged_with_the_last_status(receiver, clock):
    def reject_body(*statuses):
        with capture_logs() as logged:
            for status in statuses:
                receiver.reject_body(status)
        return [(line["event"], line["body"], line["malformed"], line["status"]) for line in logged]

    assert reject_body(415, 503) == [("requests_refused", 1, 0, 415)]
    clock.now += 60
    assert reject_body(413) == [("requests_refused", 2, 0, 413)]
    found = await receiver.findings()
    assert (found.taken, found.refused) == (0, {Refusal.BODY: 3})


async def test_a_body_counts_once_if_any_request_is_taken_or_refused(receiver):
    await receiver.take(body(*[RECORD] * (SETTINGS.rate - 1)), lines=False)
    await receiver.take(body(7), lines=False)
    await receiver.take(body(RECORD, RECORD), lines=False)
    assert (await receiver.take(body(RECORD), lines=False)).above_the_rate
    receiver.reject_body(413)
    assert (await receiver.findings()).bodies == 3


async def test_an_unreadable_body_is_not_counted_here(receiver):
    """The handler of the request counts it, as it counts bodies that it rejects earlier."""
    with pytest.raises(NotJsonError):
        await receiver.take(b"nonsense", lines=False)
    assert (await receiver.findings()).refused == {}


async def test_an_internal_error_in_the_findings_is_logged_once(receiver, monkeypatch):
    async def broken(*_arguments):
        await asyncio.sleep(0)
        raise ZeroDivisionError

    await receiver.take(body(RECORD), lines=False)
    with capture_logs() as logged:
        with monkeypatch.context() as patched:
            patched.setattr(RequestStore, "findings", broken)
            for _ in range(3):
                assert (await receiver.findings()).windows == {}
                assert (await receiver.findings()).bodies == 1
        assert (await receiver.findings()).windows
    assert [line["event"] for line in logged] == ["requests_failed"]


def cost(ratio, source=CostSource.MEASURED, fixed=0.0):
    return Cost(ratio, fixed, source, 8.0)


def test_a_cost_is_that_of_the_target_or_the_mean_of_all_with_the_model():
    fleet = Fleet([Monitor("one", ("llama", cost(0.1))), Monitor("two", ("llama", cost(0.3, fixed=0.2)))])
    costs = costs_of(fleet)
    assert costs("llama", "one") == cost(0.1)
    assert costs("llama", "two") == cost(0.3, fixed=0.2)
    for unknown in ("", "elsewhere"):
        mean = Cost(0.2, 0.1, CostSource.MEASURED, None, (StepCost(0.1, 0.0), StepCost(0.3, 0.2)))
        assert costs("llama", unknown) == mean
    assert costs("qwen", "one") is None


def test_the_mean_of_several_costs_is_within_all_their_intervals():
    one, two = (
        Cost(
            0.1 * each, 0.0, CostSource.TYPICAL, None, (StepCost(0.05 * each, 0.0), StepCost(0.3, 0.1 * each))
        )
        for each in (1, 3)
    )
    found = costs_of(Fleet([Monitor("one", ("llama", one)), Monitor("two", ("llama", two))]))("llama", "")
    assert found.draft_cost_ratio == pytest.approx(0.2)
    assert (found.low, found.high) == (StepCost(0.05, 0.0), StepCost(0.3, pytest.approx(0.3)))


async def test_the_target_of_a_request_is_kept_only_if_it_is_monitored(clock, events, monkeypatch):
    fleet = Fleet([Monitor("one", ("llama", cost(0.1))), Monitor("two", ("llama", cost(9.0)))])
    receiver = RequestReceiver(SETTINGS, fleet, events, clock)
    await receiver.take(body(*(changed("target", name) for name in ("two", "one", "nowhere"))), lines=False)
    asked = set()

    def costs(_fleet):
        return lambda _model_name, target: asked.add(target)

    monkeypatch.setattr("spec_decode_exporter.monitor.request_receiver.costs_of", costs)
    await receiver.findings()
    assert asked == {"one", "two", ""}


def test_the_most_reliable_source_is_used():
    monitors = [
        Monitor("one", ("llama", cost(0.9, CostSource.TYPICAL)), ("llama", cost(0.2, CostSource.CONFIGURED)))
    ]
    assert costs_of(Fleet(monitors))("llama", "one") == cost(0.2, CostSource.CONFIGURED)


async def test_a_mixed_workload_is_an_event_of_its_model(receiver, clock, events, monkeypatch):
    from tests.requests.test_change_notifier import findings_of

    async def found(*_arguments):
        await asyncio.sleep(0)
        return findings_of(mixed=True)

    monkeypatch.setattr(RequestStore, "findings", found)
    for _ in range(2):
        with capture_logs() as logged:
            await receiver.findings()
        clock.now += 60
    (event,) = events.since().events
    assert (event.type, event.target, event.model_name) == ("mixed_workload_began", "", "llama")
    assert (event.engine, event.bad) == (None, True)
    (line,) = logged
    assert (line["event_id"], line["model_name"], "target" in line) == ("a1-1", "llama", False)
