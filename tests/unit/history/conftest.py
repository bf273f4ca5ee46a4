import pytest

from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.history.history_reader import HistoryQuery, read_history
from spec_decode_exporter.history.query_api import QueryApi
from spec_decode_exporter.simulator.scenario import Scenario
from tests.fakes.simulated_history import START, StoredHistory

PLAIN = Scenario.model_validate(
    {"speculation": {"tokens": 0, "method": "draft_model"}, "load": {"concurrency": 8}}
)
DRAFTING = PLAIN.model_copy(update={"speculation": PLAIN.speculation.model_copy(update={"tokens": 4})})
ENABLED = {
    **PLAIN.model_dump(mode="json"),
    "phases": [{"at": "30m", "restart": {"down": "20s", "tokens": 4}}],
}
"""Speculation is enabled in the middle of an hour and a quarter."""
SECONDS = 75 * 60


def simulated(scenario, seconds, interval=15, **labels):
    """Return the history of one server, whose simulation tests share."""
    stored = StoredHistory()
    stored.simulate(scenario, seconds, interval, **{"job": "vllm", "instance": "a:8000", **labels})
    return stored


def history_of(stored, *, match="", begin=START - 60, end=None, **options):
    """Return the coroutine that reads all of a stored history."""
    query = HistoryQuery(begin, stored.now + 1 if end is None else end, match)
    api = QueryApi("http://prometheus:9090", stored)
    return read_history(api, query, lambda _: Assumptions(), **options)


@pytest.fixture(scope="session", params=[15, 60], ids="scraped every {} s".format)
def enabled(request):
    """Return a history with a minute between scrapes, or a quarter."""
    stored = simulated(Scenario.model_validate(ENABLED), SECONDS)
    for samples in stored.series.values():
        samples[:] = [pair for pair in samples if (pair[0] - START) % request.param == 0]
    return stored
