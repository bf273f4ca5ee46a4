"""Numbers from outside: whatever a file or an answer has, it is refused or set aside where it enters.

Each number of a valid document is replaced by each number that Python's JSON reads and no counter, time or ratio
can be. The reader raises its own error or returns finite numbers, from which reports are written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy

import pytest

from spec_decode_exporter.app.reload import load_config
from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.cli.plan import plan_of
from spec_decode_exporter.cli.recommend import written
from spec_decode_exporter.config.batch_schedule import SCHEDULE_KEY
from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.costs.learned import LearnedState
from spec_decode_exporter.discovery.vllm_command_line import pod_speculation
from spec_decode_exporter.monitor.state import (
    Remembered,
    RememberedEngine,
    document,
    entry_json,
    parsed_state,
)
from spec_decode_exporter.plan.models import ModelError
from spec_decode_exporter.plan.report import as_json
from spec_decode_exporter.reports.comparison import as_json as compared_json
from spec_decode_exporter.reports.comparison import compared
from spec_decode_exporter.reports.observation_report import json_report
from spec_decode_exporter.reports.saved_snapshot import SavedEngine, SavedFileError, read
from spec_decode_exporter.reports.text import TextStyle
from spec_decode_exporter.scrape.server_info import served_speculation
from tests.fakes.model_configs import LLAMA_8B
from tests.fakes.references import observation
from tests.fakes.saved_state import document_of

NUMBERS = (
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1.7976931348623157e308", "-1.7976931348623157e308",
    "1" + "0" * 400, "-1" + "0" * 400, "9" * 5000, "1001832969600", "18446744073709551616", "-1", "5e-324", "0",
)  # fmt: skip
"""The 5,000 digits are more than ``int`` reads; the twelfth number is a Unix time of the year 33715."""
_PLACE = "@number@"


def spoiled(document: object) -> Iterator[bytes]:
    """Yield the JSON of a document with each of its numbers, or of a list the first, replaced by each of ``NUMBERS``."""
    for path in _paths(document):
        changed = deepcopy(document)
        *way, last = path
        place = changed
        for step in way:
            place = place[step]
        place[last] = _PLACE
        text = json.dumps(changed)
        yield from (text.replace(f'"{_PLACE}"', number).encode() for number in NUMBERS)


def _paths(value: object) -> Iterator[tuple[str | int, ...]]:
    members = (
        value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    )
    for key, member in members:
        if isinstance(member, int | float) and not isinstance(member, bool):
            yield (key,)
        yield from ((key, *path) for path in _paths(member))


def is_finite(value: object) -> bool:
    """Return whether no number in a result, or in its JSON, is infinite, or an integer that no float holds."""
    text = value if isinstance(value, str) else repr(value)
    return not re.search(r"\b(nan|NaN|inf|Infinity|\d{309,})\b", text)


def state_document(file):
    """Return a state that can be written again."""
    found = parsed_state(file.read_bytes())
    remembered = Remembered()
    remembered.recall(found)
    parsed_state(document_of(remembered, 1.8e9))
    return found


def planned(file):
    """Return the plan for a model of which one file is given; its configuration is valid if it is another one."""
    if file.name != "config.json":
        file.with_name("config.json").write_text(json.dumps(LLAMA_8B))
    return as_json(plan_of(parse(["plan", "--target", str(file.parent), "--draft", "1B"], {})))


def configuration(file):
    return load_config(file, environ={}).model_dump()


SERVED = {"method": "eagle3", "num_speculative_tokens": 4, SCHEDULE_KEY: [[1, 32, 4]]}
READERS = {
    "a state file": ("state.json", json.loads(document(entry_json(RememberedEngine("t", "m", "0", 1.8e9, LearnedState(4))), [])), state_document, ValueError),
    "the configuration of a model": ("config.json", LLAMA_8B, planned, ModelError),
    "the index of a model": ("model.safetensors.index.json", {"metadata": {"total_size": 1}}, planned, ModelError),
    "the settings of a server": ("answer", {"vllm_config": {"speculative_config": SERVED}}, lambda file: served_speculation(file.read_bytes()), ()),
    "the arguments of a pod": ("argument", SERVED, lambda file: pod_speculation(["vllm", "serve", "m", "--speculative-config", file.read_text()], {}), ()),
    "a configuration": (
        "exporter.yml",
        {
            "targets": [{"url": "http://a", "cost": {"draft_cost_ratio": 0.1, "fixed_cost_ratio": 0.1}}],
            "poll": {"max_duty_cycle": 0.1},
            "policy": {"speedup": {"harmful": 1.0}, "depth": {"tolerance": 0.01}},
            "limits": {"engines": 10},
            "requests": {"rate": 10},
        },
        configuration,
        ConfigError,
    ),
}  # fmt: skip
"""The name of a file, its valid document, its reader, and the error of the reader, if it has one."""


@pytest.mark.parametrize(("name", "document", "reader", "refused"), READERS.values(), ids=READERS)
def test_a_document_is_refused_or_finite(tmp_path, name, document, reader, refused):
    accepted, file = 0, tmp_path / name
    for body in (json.dumps(document).encode(), *spoiled(document)):
        file.write_bytes(body)
        with suppress(refused):
            assert is_finite(reader(file))
            accepted += 1
    assert accepted


def test_an_observation_is_refused_or_gives_finite_settings_and_comparisons(tmp_path):
    file = tmp_path / "observation.json"
    observed = json.loads(json_report(observation("steady", seconds=10)))
    engine = observed["engines"][0]
    engine = {name: engine[name] for name in SavedEngine.model_fields}
    document = {"seconds": 10.0, "engines": [engine], "models": observed["models"]}
    file.write_text(json.dumps(document))
    usual = read(file)
    settings = 0
    for body in spoiled(document):
        file.write_bytes(body)
        with suppress(SavedFileError):
            snapshot = read(file)
            assert is_finite(written(snapshot.engines, "json", TextStyle()))
            assert is_finite(compared_json(compared(snapshot, usual)))
            settings += 1
    assert settings
