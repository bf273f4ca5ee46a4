"""``--record`` and ``--replay`` of observe, and ``--format prometheus``."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from spec_decode_exporter.app.exporter_state import ExporterState, metrics_text
from spec_decode_exporter.cli.observe import _check_format, add_arguments
from spec_decode_exporter.cli.observe_config import read_config
from spec_decode_exporter.cli.observe_recording import check_recording_flags, replayed
from spec_decode_exporter.config.load import load
from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.history.recording import Recorder, RecordingError, read_recording
from spec_decode_exporter.reports.observation import Observation, observed_config
from tests.conftest import CHECKOUT
from tests.fakes.replayed_metrics import replayed_metrics
from tests.fakes.simulated import Server

SECONDS = 60
RESTART = CHECKOUT / "tests/data/pins/recordings/restart_k3_k5.jsonl.gz"


def parsed(*flags):
    parser = argparse.ArgumentParser()
    add_arguments(parser, {})
    return parser.parse_args(flags)


@pytest.fixture
async def recording(tmp_path, clock, network):
    """Record a simulated server for a minute; return the file and what the live observation said."""
    network.servers["vllm:8000"] = server = Server(clock, "steady", running=120.0)
    path = tmp_path / "recording.gz"
    target = {"url": "vllm:8000", "speculative": {"method": "eagle3"}}
    config = observed_config([target], SECONDS, overrides={"poll.filter": "off"})
    with Recorder(path) as recorder:
        observation = Observation(config, clock, recorded=recorder.take)

        async def polls():
            pollers = [monitor.poller() for monitor in observation.fleet]
            for second in range(SECONDS):
                server.away = second in {20, 21}
                for poller in pollers:
                    await poller.poll()
                clock.now += 1.0

        await observation.poll(polls())
        live = observation.observed()
        await observation.close()
    return path, live


async def test_a_replay_says_what_the_observation_said(recording):
    path, live = recording
    observation, _ = replayed(parsed("--replay", str(path), "--speculative.method", "eagle3"), {})
    (before,), (after,) = live.view().engines, observation.observed().view().engines
    assert after.verdict is before.verdict
    assert after.windows[-1].counts == before.windows[-1].counts
    assert after.windows[-1].estimated_speedup_ratio == before.windows[-1].estimated_speedup_ratio
    assert after.windows[-1].time_to_first_token_seconds == before.windows[-1].time_to_first_token_seconds
    assert after.target == before.target


def test_every_page_of_a_recording_is_whole(recording):
    polls = list(read_recording(recording[0]))
    assert [poll.error for poll in polls].count("refused") == 2
    assert all(b"_bucket{" in poll.page for poll in polls if poll.page is not None)
    assert read_config(parsed("--record", "x", "vllm:8000", "--for", "1m"), {}).poll.filter == "off"


def test_a_recording_takes_the_settings_of_its_targets_from_a_file(recording, tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text(
        "targets: [{url: 'http://vllm:8000/metrics', labels: {zone: a}, speculative: {method: medusa}}]\n"
    )
    observation, _ = replayed(parsed("--replay", str(recording[0]), "--config.file", str(file)), {})
    (engine,) = observation.observed().view().engines
    assert (engine.labels["zone"], engine.method) == ("a", "medusa")


def test_the_window_is_the_end_of_the_recording():
    whole, _ = replayed(parsed("--replay", str(RESTART)), {})
    last, _ = replayed(parsed("--replay", str(RESTART), "--for", "20s"), {})
    (all_of_it,), (end,) = whole.observed().view().engines, last.observed().view().engines
    assert all_of_it.windows[-1].counts.drafts > 3 * end.windows[-1].counts.drafts > 0
    assert last.observed().time == whole.observed().time


async def test_a_recording_with_one_poll_is_refused(recording, tmp_path):
    first = next(read_recording(recording[0]))
    with Recorder(tmp_path / "one.gz") as recorder:
        recorder.take(first)
    with pytest.raises(RecordingError, match="fewer than two polls"):
        replayed(parsed("--replay", str(tmp_path / "one.gz")), {})


async def text_of(*flags):
    observation, clock = replayed(parsed("--replay", str(RESTART), "--format", "prometheus", *flags), {})
    return await metrics_text(ExporterState(observation.fleet, observation.events, clock))


def engine_lines(text):
    return [
        line for line in text.splitlines() if line.startswith("spec_decode_") and "_exporter_" not in line
    ]


async def test_metrics_are_those_of_an_exporter_at_the_end_of_the_recording():
    """With its windows and its profile, and without metrics of a process."""
    standard, full = engine_lines(await text_of()), engine_lines(await text_of("--metrics.profile", "full"))
    assert set(standard) < set(full)
    config = load(None, environ={}, overrides={"metrics.profile": "full"})
    *_, (_, last) = [each async for each in replayed_metrics(RESTART, config, 1.0)]
    assert engine_lines(last) == full
    assert {line.split('window="')[1].split('"')[0] for line in full if 'window="' in line} == {"30s", "5m"}
    assert "process_" not in await text_of()
    assert (
        'spec_decode_exporter_poll_failures_total{reason="refused",target="restart_k3_k5"} 42'
        in await text_of()
    )


def test_metrics_that_do_not_exist_are_named(tmp_path):
    file = tmp_path / "exporter.yml"
    file.write_text("metrics: {enable: [spec_decode_nothing]}\n")
    with pytest.raises(ConfigError, match="is not a group of metrics"):
        replayed(parsed("--replay", str(RESTART), "--config.file", str(file)), {})


def _check(arguments):
    check_recording_flags(arguments)
    _check_format(arguments)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--replay", "x", "localhost:8000"], "URL something else"),
        (["--replay", "x", "--record", "y"], "--record something else"),
        (["--replay", "x", "--simulate", "steady"], "--simulate something else"),
        (["--replay", "x", "--baseline.prometheus.url", "http://p"], "not for a recording"),
        (["--record", "x", "--prometheus.url", "p:9090"], "--prometheus.url polls none"),
        (["--metrics.profile", "full"], "--metrics.profile needs --format prometheus"),
        (["--format", "prometheus", "--every", "5s"], "written once"),
        (["--format", "prometheus", "--prometheus.url", "p:9090"], "needs servers or a recording"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(flags, text):
    arguments = parsed(*flags)
    with pytest.raises(UsageError, match=text):
        _check(arguments)


def test_a_file_that_is_no_recording_is_named(tmp_path):
    path = Path(tmp_path / "x")
    path.write_text("{}")
    with pytest.raises(RecordingError, match=str(path)):
        replayed(parsed("--replay", str(path)), {})
