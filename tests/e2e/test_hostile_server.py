"""A sidecar beside one server that does its worst: it stays within the memory that the chart gives it, and a good
server that it watches too is polled in time."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import pytest

from tests.e2e.faults.answers import answer, each_time_another, page
from tests.e2e.faults.catalogue import catalogue
from tests.e2e.faults.servers import serving

INTERVAL = 1.0
MIN_POLLS = 5
"""Polls of the good server, one a second."""
MOST_RESIDENT = 128 * 2**20
"""Bytes: what the chart gives a sidecar."""
COUNTERS = ("drafts", "draft_tokens", "accepted_tokens")
POSITIONS = 7


def _lines(polls: int) -> list[str]:
    """Return 256 engines of 8 positions, the most that is watched, in another order at every poll."""
    lines = []
    for engine in range(256):
        labels = f'engine="{engine}",model_name="m"'
        lines += [f"vllm:spec_decode_num_{each}_total{{{labels}}} {100 * polls}" for each in COUNTERS]
        stem = f"vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels}"
        lines += [f'{stem},position="{position}"}} {9 * polls}' for position in range(POSITIONS + 1)]
    random.Random(polls).shuffle(lines)  # so that no layout is known from the last poll
    return lines


def _says(requests: int) -> bytes:
    """Answer the first request for the page, then those for the version and for how the server speculates."""
    if requests == 1:
        return answer(b'{"version":"' + b"1" * 3_000_000 + b'"}')
    if requests == 2:
        ranges = b",".join(b"[%d,%d,1]" % (size, size) for size in range(1, 200_000))
        settings = b'{"method":"mtp","num_speculative_tokens_per_batch_size":[' + ranges + b"]}"
        return answer(b'{"vllm_config":{"speculative_config":' + settings + b"}}")
    return answer(page(drafts=10**6 - requests))


WORST = {
    "says-too-much-of-itself": each_time_another(_says),
    **{
        name: catalogue()[name].respond
        for name in (
            "gzip-bomb",
            "endless-unsized",
            "comment",
            "many-labels",
            "labels",
            "many-series",
            "many-lines",
        )
    },
    "most-that-is-watched": each_time_another(lambda polls: answer(page(*_lines(polls)))),
}


@pytest.mark.parametrize("name", WORST)
def test_one_server_can_neither_fill_the_memory_nor_hold_up_the_others(name, e2e, tmp_path):
    with serving({name: WORST[name]}) as servers:
        targets = {"good": servers.good, **servers.ports}
        config = {
            "poll": {"max_duty_cycle": 1},
            "targets": [
                {"url": f"http://127.0.0.1:{port}/metrics", "name": target}
                for target, port in targets.items()
            ],
        }
        exporter = e2e.Exporter(tmp_path, json.dumps(config))
        exporter.wait_for(f"{exporter.url}/-/ready")
        e2e.eventually(lambda: len(servers.asked) > MIN_POLLS and servers.requests[name])
        waited = exporter.waited_for_cpu()
        most = int(_status(exporter.process.pid)["VmHWM"].split()[0]) * 1024
        status, _ = exporter.stop()
    gaps = [after - before for before, after in itertools.pairwise(servers.asked)]
    assert servers.requests[name]
    assert max(gaps) < 2 * INTERVAL + waited + servers.stalled
    assert most < MOST_RESIDENT, f"{most / 1e6:.0f} MB"
    assert status == 0


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":", 1) for line in lines)
