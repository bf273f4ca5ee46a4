"""``--record`` and ``--replay`` of observe, and ``--format prometheus``."""

import re
import signal
from itertools import islice

import pytest

from spec_decode_exporter.cli import observe
from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.cli.observe_config import read_config
from spec_decode_exporter.cli.observe_files import replayed
from spec_decode_exporter.config.load import load
from spec_decode_exporter.history.recording import Recorder, RecordingError, read_recording
from spec_decode_exporter.reports.observation import Observation, observed_config
from spec_decode_exporter.web.state import ExporterState
from tests.conftest import CHECKOUT
from tests.fakes.replayed_metrics import replayed_metrics
from tests.fakes.simulated import Server

SECONDS = 30
RESTART = CHECKOUT / "tests/data/pins/recordings/restart_k3_k5.jsonl.gz"


@pytest.fixture
async def recording(tmp_path, clock, network):
    """Record a simulated server for half a minute; return the file and what the live observation said."""
    network.servers["vllm:8000"] = server = Server(clock, "steady", running=120.0)
    path = tmp_path / "recording.gz"
    target = {"url": "vllm:8000", "speculative": {"method": "eagle3"}}
    config = observed_config([target], SECONDS, overrides={"poll.filter": "off"})
    with Recorder(path) as recorder:
        observation = Observation(config, clock, recorded=recorder.take)

        async def polls():
            pollers = [monitor.poller() for monitor in observation.fleet]
            for second in range(SECONDS):
                server.away = second in {10, 11}
                for poller in pollers:
                    await poller.poll()
                clock.now += 1.0

        await observation.poll(polls())
        live = observation.observed()
        await observation.close()
    return path, live


def test_an_interrupt_ends_a_replay_at_once(monkeypatch):
    """A replay never yields to the event loop."""

    def interrupted(*_):
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the replay went on")

    monkeypatch.setattr(observe, "replayed", interrupted)
    assert observe.handle(parse(["observe", "--replay", RESTART.as_posix()], {})) == 130


async def test_a_replay_says_what_the_observation_said_from_whole_pages(recording):
    path, live = recording
    words = ["observe", "--replay", str(path), "--speculative.method", "eagle3"]
    observation = replayed(parse(words, {}), {})
    (before,), (after,) = live.engines, observation.observed().engines
    assert after.verdict is before.verdict
    assert after.windows[-1].counts == before.windows[-1].counts
    assert after.windows[-1].estimated_speedup_ratio == before.windows[-1].estimated_speedup_ratio
    assert after.windows[-1].time_to_first_token_seconds == before.windows[-1].time_to_first_token_seconds
    assert after.target == before.target
    polls = list(read_recording(path))
    assert [poll.error for poll in polls].count("refused") == 2
    assert all(b"_bucket{" in poll.page for poll in polls if poll.page is not None)
    recorded = parse(["observe", "--record", "x", "vllm:8000", "--for", "1m"], {})
    assert read_config(recorded, {}).poll.filter == "off"


@pytest.fixture(scope="module")
def restart(tmp_path_factory):
    """Return a part of a real recording: 12 polls of a server that is away, and 40 after its start."""
    path = tmp_path_factory.mktemp("recording") / "restart.gz"
    with Recorder(path) as recorder:
        for poll in islice(read_recording(RESTART), 80, 132):
            recorder.take(poll)
    return str(path)


def test_the_window_is_the_end_of_the_recording(restart):
    whole = replayed(parse(["observe", "--replay", restart], {}), {})
    last = replayed(parse(["observe", "--replay", restart, "--for", "10s"], {}), {})
    (all_of_it,), (end,) = whole.observed().engines, last.observed().engines
    assert all_of_it.windows[-1].counts.drafts > 3 * end.windows[-1].counts.drafts > 0
    assert last.observed().time == whole.observed().time


def test_a_recording_with_one_poll_is_refused(tmp_path):
    with Recorder(tmp_path / "one.gz") as recorder:
        recorder.take(next(read_recording(RESTART)))
    with pytest.raises(RecordingError, match="fewer than two polls"):
        replayed(parse(["observe", "--replay", str(tmp_path / "one.gz")], {}), {})


async def test_metrics_are_those_of_an_exporter_at_the_end_of_the_recording(restart):
    """With its windows and its profile, and without metrics of a process."""

    texts = []
    for flags in ([], ["--metrics.profile", "full"]):
        words = ["observe", "--replay", restart, "--format", "prometheus", *flags]
        state = ExporterState(replayed(parse(words, {}), {}).fleet)
        texts.append(state.metrics.text(await state.take()))
    config = load(None, environ={}, overrides={"metrics.profile": "full"})
    *_, (_, last) = [each async for each in replayed_metrics(restart, config, 1.0)]
    standard, full, exported = (
        [line for line in text.splitlines() if line.startswith("spec_decode_") and "_exporter_" not in line]
        for text in (*texts, last)
    )
    assert set(standard) < set(full)
    assert exported == full
    assert {line.split('window="')[1].split('"')[0] for line in full if 'window="' in line} == {"30s", "5m"}
    assert "process_" not in texts[0]
    assert 'spec_decode_exporter_poll_failures_total{reason="refused",target="restart_k3_k5"} 12' in texts[0]


def test_a_whole_page_ends_with_0_whatever_the_verdict(program, restart, tmp_path):
    words = ("observe", "--replay", restart, "--cost.draft-cost-ratio", "3")
    assert program(*words)[0] == 4
    status, page, _ = program(*words, "--format", "prometheus")
    assert status == 0
    assert re.search(r'spec_decode_verdict\{.*verdict="harmful"\} 1', page)
    down = tmp_path / "down.gz"
    with Recorder(down) as recorder:
        for poll in islice(read_recording(RESTART), 80, 90):
            recorder.take(poll)
    assert program("observe", "--replay", str(down), "--format", "prometheus")[0] == 1
