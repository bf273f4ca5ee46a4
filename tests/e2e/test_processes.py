"""Processes under stress: killed at any moment, and without disk space."""

import json
import os
import random
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from spec_decode_exporter.monitor.state import StateFile

SAVER = """
import sys
from pathlib import Path
from spec_decode_exporter.monitor.state import RememberedEngine
from spec_decode_exporter.monitor.state import StateFile, document, entry_json
from spec_decode_exporter.costs.learned import LearnedState

file = StateFile(Path(sys.argv[1]))
engines = [text for each in file.load().engines for text in entry_json(each)]
print("loaded", flush=True)
while True:
    engines += entry_json(RememberedEngine("t", "m", str(len(engines)), 1e9, LearnedState(4)))
    file.save(document(engines, []))
"""
"""A program that does nothing but save, so that whatever moment it is killed at, it is at that."""
POLLS = "spec_decode_exporter_polls_total"


def test_who_is_killed_at_any_moment_leaves_a_file_that_is_whole(tmp_path):
    path, before, kills = tmp_path / "state.json", 0, 0
    while kills < 20 or before <= 20:
        kills += 1
        command = [sys.executable, "-c", SAVER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as saver:
            assert saver.stdout.readline() == "loaded\n"
            time.sleep(random.uniform(0.0, 0.1))
            saver.kill()
        number = len(StateFile(path).load().engines)
        assert number >= before
        before = number
    assert before > 20
    assert not list(tmp_path.glob("*.corrupt"))


@pytest.fixture
def disk(tmp_path):
    """A disk of 256 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk]
    mounted = subprocess.run(mount, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no disk of its own can be mounted: {mounted.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def fill(file):
    """Write to a descriptor until the disk is full."""
    with suppress(OSError):
        while True:
            os.write(file, bytes(1024))


def test_a_full_disk_and_one_that_becomes_read_only_are_told_and_polls_go_on(start, e2e, disk):
    simulator, state = start(e2e.Simulator, "steady"), disk / "state.json"
    config = {
        "poll": {"max_duty_cycle": 1},
        "targets": [{"url": simulator.url}],
        "state": {"file": str(state), "interval": "100ms"},
    }
    exporter = start(e2e.Exporter, json.dumps(config))
    exporter.wait_for(f"{exporter.url}/-/ready")
    e2e.eventually(lambda: state.exists() and StateFile(state).load().engines)

    def goes_on_without(reason, told, prevent):
        # A file that was just being written frees its old place, and may not become read-only.
        e2e.eventually(lambda: prevent() or reason in exporter.log)
        polls = exporter.value(POLLS)
        e2e.eventually(lambda: exporter.value(POLLS) > polls + 1)
        assert exporter.log.count("state_file_not_written") == told
        assert StateFile(state).load().engines

    with (disk / "others").open("wb") as others:
        goes_on_without("No space left on device", 1, lambda: fill(others.fileno()))
    (disk / "others").unlink()
    e2e.eventually(lambda: exporter.log.count("state_file_written_again") == 1)
    remount = ["mount", "-o", "remount,ro", disk]
    goes_on_without("Read-only file system", 2, lambda: subprocess.run(remount, check=False) and None)
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    e2e.eventually(lambda: exporter.log.count("state_file_written_again") == 2)
    assert exporter.stop()[0] == 0
    assert "Traceback" not in exporter.log
    assert sorted(entry.name for entry in disk.iterdir()) == ["state.json"]
