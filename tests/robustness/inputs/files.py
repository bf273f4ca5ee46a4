"""Files that are read as a whole: inputs at their bounds, and just beyond them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from structlog.testing import capture_logs

from spec_decode_exporter.app.reload import load_config
from spec_decode_exporter.config.http_settings import Authorization, HttpSettings
from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.config.source import MAX_VALUES
from spec_decode_exporter.config.types import MAX_FILE_BYTES
from spec_decode_exporter.costs.learned import LearnedState
from spec_decode_exporter.drops.drops import DropState
from spec_decode_exporter.drops.sums import Sums
from spec_decode_exporter.monitor.state import MAX_BYTES as LARGEST_STATE
from spec_decode_exporter.monitor.state import (
    MAX_CONTAINERS,
    MAX_STATES,
    RememberedEngine,
    StateFile,
    document,
    entry_json,
)
from spec_decode_exporter.plan import models
from spec_decode_exporter.plan.models import ModelError
from spec_decode_exporter.reports import saved_snapshot
from spec_decode_exporter.reports.observation_report import json_report
from spec_decode_exporter.scrape.credentials import headers
from spec_decode_exporter.scrape.errors import PollError
from spec_decode_exporter.web.security import read_web_config
from tests.fakes.model_configs import LLAMA_8B
from tests.fakes.references import observation
from tests.robustness.inputs.row import InFile, RejectedError, Row, as_json, filled


def _state(path: Path) -> object:
    with capture_logs() as logs:
        found = StateFile(path).load()
    if logs:
        raise RejectedError(str(logs[0]["reason"]))
    return found


def _secret(path: Path) -> object:
    return headers(HttpSettings(authorization=Authorization(credentials_file=path)))


_HASH = b"$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi"


def _observation(engines: int) -> bytes:
    with ThreadPoolExecutor(1) as thread:  # the test has an event loop of its own
        view = thread.submit(observation, "steady", seconds=10).result()
    observed = json.loads(json_report(view))
    return json.dumps({**observed, "engines": observed["engines"] * engines}).encode()


def _states(engines: int, entry: bytes | None = None) -> bytes:
    """Return a state file of engines with the drops of a day."""
    drops = DropState()
    drops.sudden.time.held = [Sums(*[1 / 3] * 6)] * 10
    drops.drafting.time.held = list(drops.sudden.time.held)
    texts = [
        text
        for number in range(engines)
        for text in entry_json(RememberedEngine("t", "m", str(number), 1e9, LearnedState(4, drops=drops)))
    ]
    return document(texts if entry is None else [entry] * engines, [])


ROWS: tuple[Row, ...] = (
    Row(
        name="configuration",
        rejects=ConfigError,
        read=InFile(lambda path: load_config(path, environ={}), "exporter.yml"),
        worst={
            "targets": lambda: b"targets:\n" + b"".join(b"- url: http://h%d:1\n" % n for n in range(5_000)),
            "a comment": filled(b"# ", b"x", b"", MAX_FILE_BYTES),
        },
        beyond={
            "bytes": filled(b"# ", b"x", b"", MAX_FILE_BYTES + 1),
            "values": lambda: b"targets: [" + b"{}," * MAX_VALUES + b"]",
            "mistakes": lambda: b"targets: [" + b"x," * (MAX_VALUES // 2) + b"]",
        },
    ),
    Row(
        name="web configuration",
        rejects=ConfigError,
        read=InFile(read_web_config, "web.yml"),
        worst={
            "users": lambda: (
                b"basic_auth_users:\n" + b"".join(b"  user%d: %b\n" % (n, _HASH) for n in range(1_000))
            )
        },
        beyond={"bytes": filled(b"# ", b"x", b"", MAX_FILE_BYTES + 1)},
    ),
    Row(
        name="secret file",
        rejects=PollError,
        read=InFile(_secret),
        worst={"one line": filled(b"", b"x", b"", MAX_FILE_BYTES)},
        beyond={"bytes": filled(b"", b"x", b"", MAX_FILE_BYTES + 1)},
    ),
    Row(
        name="saved observation",
        rejects=saved_snapshot.SavedFileError,
        read=InFile(saved_snapshot.read_observation),
        worst={"engines": lambda: _observation(400)},
        beyond={
            "bytes": filled(b"", b" ", b"", saved_snapshot.MAX_BYTES + 1),
            "values": filled(b"[", b"{},", b"{}]"),
        },
    ),
    Row(
        name="state file",
        read=InFile(_state),
        worst={"engines": lambda: _states(MAX_STATES)},
        beyond={
            "bytes": filled(b"", b" ", b"", LARGEST_STATE + 1),
            "values": lambda: _states(1, b"[" + b"{}," * MAX_CONTAINERS + b"{}]"),
            "entries": lambda: _states(MAX_STATES + 1, b"{}"),
            "an entry": lambda: _states(1, b'"' + b"x" * 60_000 + b'"'),
        },
    ),
    Row(
        name="config.json of a model",
        rejects=ModelError,
        read=InFile(lambda path: models.model_of(str(path), None), "config.json"),
        worst={
            "values": as_json(lambda: {**LLAMA_8B, "x": [{}] * (models.MAX_VALUES // 2 - 20)}),
            "a text": as_json(lambda: {**LLAMA_8B, "x": "x" * (models.MAX_BYTES - 1000)}),
        },
        beyond={
            "bytes": filled(b"", b" ", b"", models.MAX_BYTES + 1),
            "values": filled(b'{"x":[', b"[],", b"[]]}"),
        },
    ),
)
