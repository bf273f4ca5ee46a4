import json

import pytest

from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.costs.cost import CostRange, CostSource
from spec_decode_exporter.costs.methods import Interval
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.request_receiver import RequestReceiver, costs_of
from spec_decode_exporter.requests.request_types import RequestTypes
from tests.unit.requests.test_record import RECORD

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
def receiver(clock):
    return RequestReceiver(SETTINGS, Fleet(), EventLog("a1"), clock)


def body(*records):
    return json.dumps(records).encode()


async def test_a_reload_keeps_counted_requests_unless_the_labels_change(receiver):
    await receiver.take(body(RECORD), lines=False)
    receiver.adopt(RequestSettings())
    receiver.adopt(SETTINGS.model_copy(update={"rate": 7}))
    assert (await receiver.findings()).taken == 1
    receiver.adopt(SETTINGS.model_copy(update={"temperatures": (0.5,)}))
    assert (await receiver.findings()).taken == 0


def cost(ratio, source=CostSource.MEASURED, step=0.0, margin=0.0):
    token, fixed = (Interval(each - margin, each, each + margin) for each in (ratio, step))
    return CostRange(token, fixed, source, 8.0, every_step=False)


def test_a_cost_is_that_of_the_target_or_the_mean_of_all_with_the_model():
    one, two = cost(0.1, margin=0.05), cost(0.3, step=0.2, margin=0.1)
    costs = costs_of(Fleet([Monitor("one", ("llama", one)), Monitor("two", ("llama", two))]))
    assert (costs("llama", "one"), costs("llama", "two"), costs("qwen", "one")) == (one, two, None)
    for unknown in ("", "elsewhere"):
        mean = costs("llama", unknown)
        assert (mean.token, mean.step) == (pytest.approx((0.05, 0.2, 0.4)), pytest.approx((-0.05, 0.1, 0.3)))
        assert (mean.source, mean.running_requests) == (CostSource.MEASURED, None)
