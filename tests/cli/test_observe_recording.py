"""``--record``, ``--replay`` and ``--anonymise`` of observe, and ``simulate --replay``."""

from __future__ import annotations

import argparse

import pytest
from aiohttp import ClientSession

from spec_decode_exporter.cli.observe import add_arguments
from spec_decode_exporter.cli.observe_recording import check_recording_flags, replayed
from spec_decode_exporter.cli.simulate_replay import recorded_targets, replay_server
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.history.recording import Recorder, RecordingError, read_recording
from spec_decode_exporter.reports.observe.observation_config import observed_config
from spec_decode_exporter.reports.observe.session import Observation
from tests.fixtures.simulated import Server

SECONDS = 60


def parsed(*flags):
    parser = argparse.ArgumentParser()
    add_arguments(parser, {})
    return parser.parse_args(flags)


@pytest.fixture
async def recording(tmp_path, clock, network):
    """Record a simulated server for a minute; return the file and what the live observation said."""
    network.servers["vllm:8000"] = Server(clock, "steady", running=120.0)
    path = tmp_path / "recording.gz"
    config = observed_config([{"url": "vllm:8000", "speculative": {"method": "eagle3"}}], SECONDS)
    with Recorder(path) as recorder:
        observation = Observation(config, clock, received=recorder.take)

        async def polls():
            for _ in range(SECONDS):
                for monitor in observation._monitors:
                    await monitor.poll()
                clock.now += 1.0

        await observation.poll(polls())
        live = observation.observed()
        await observation.close()
    return path, live


async def test_a_replay_says_what_the_observation_said(recording):
    path, live = recording
    fleet = replayed(parsed("--replay", str(path), "--speculative.method", "eagle3"), {})
    (before,), (after,) = live.view().engines, fleet.view().engines
    assert after.verdict is before.verdict
    assert after.windows[-1].counts == before.windows[-1].counts
    assert after.windows[-1].estimated_speedup_ratio == before.windows[-1].estimated_speedup_ratio
    assert after.target == before.target


async def test_a_recording_with_one_page_is_refused(recording, tmp_path):
    first = next(read_recording(recording[0]))
    with Recorder(tmp_path / "one.gz") as recorder:
        recorder.take(*first)
    with pytest.raises(RecordingError, match="fewer than two pages"):
        replayed(parsed("--replay", str(tmp_path / "one.gz")), {})


async def test_a_recording_is_served_page_by_page(recording, clock):
    path, _ = recording
    server = replay_server(path, 2.0, clock)
    await server.open("127.0.0.1", 0)
    try:
        pages = []
        async with ClientSession() as session:
            for _ in range(3):
                await clock.advance(5.0)
                async with session.get(f"http://127.0.0.1:{server.port}/metrics") as response:
                    pages.append(await response.text())
            async with session.get(f"http://127.0.0.1:{server.port}/7/metrics") as response:
                assert response.status == 404
    finally:
        await server.close()
    tokens = [
        next(float(line.split()[-1]) for line in page.splitlines() if line.startswith("vllm:generation"))
        for page in pages
    ]
    assert tokens == sorted(set(tokens))
    assert "vllm:time_to_first_token_seconds_bucket{" in pages[-1]
    assert recorded_targets(path) == ("vllm:8000",)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--anonymise"], "--anonymise needs --record"),
        (["--replay", "x", "localhost:8000"], "URL something else"),
        (["--replay", "x", "--record", "y"], "--record something else"),
        (
            ["--replay", "x", "--baseline.prometheus.url", "http://p"],
            "not for a recording",
        ),
        (["--record", "x", "--prometheus.url", "p:9090"], "--prometheus.url polls none"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(flags, text):
    with pytest.raises(UsageError, match=text):
        check_recording_flags(parsed(*flags))
