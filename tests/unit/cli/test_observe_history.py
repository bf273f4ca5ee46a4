"""``observe --prometheus.url``: its times and its report."""

import io

import pytest

from spec_decode_exporter.cli import observe_history
from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.reports.progress import Streams
from spec_decode_exporter.simulator.scenario import Scenario
from tests.conftest import FakeClock
from tests.fakes.simulated_history import StoredHistory

STEADY = {"speculation": {"tokens": 3, "method": "draft_model"}, "load": {"concurrency": 4}}
NOW = 1_790_000_000


@pytest.fixture(scope="module")
def stored():
    stored = StoredHistory()
    stored.simulate(Scenario.model_validate(STEADY), 900, 15, job="vllm", instance="a:8000")
    return stored


@pytest.fixture
def history(stored, monkeypatch):
    """Run the command on the stored history, and return the text of its report."""

    async def run(*flags):
        arguments = parse(["observe", "--prometheus.url", "http://p:9090", *flags], {})
        monkeypatch.setattr(observe_history, "Client", lambda *_, **__: stored)
        out, clock = io.StringIO(), FakeClock(wall=stored.now)
        status = await observe_history.observe_history(arguments, Streams(out, io.StringIO(), {}), clock)
        return status, out.getvalue()

    return run


async def test_a_history_is_reported_and_too_short_a_time_is_refused(history):
    _, text = await history("--since", "14m")
    assert "meta-llama/Llama-3.1-8B-Instruct" in text
    with pytest.raises(UsageError, match="must be 10m to"):
        await history("--since", "5m")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2h", NOW - 7200),
        ("2026-09-21", 1_789_948_800),
        ("2026-09-21T01:00", 1_789_952_400),
        ("2026-09-21T01:00+01:00", 1_789_948_800),
    ],
)
def test_a_time_is_an_age_or_a_date(text, moment):
    assert observe_history.moment(text, "--since", NOW) == moment
    with pytest.raises(UsageError, match="write how long ago, such as 7d"):
        observe_history.moment("yesterday", "--since", NOW)
