"""Parsers of the exporter's own files: cut, changed, and with a recomputed checksum."""

from __future__ import annotations

import json
from math import inf
from typing import Final

from spec_decode_exporter.analysis.step_time_cost import StepTime, measured_cost
from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.core.checksummed_file import UnusableError
from spec_decode_exporter.monitor.drops.drop_detector import DropDetector
from spec_decode_exporter.monitor.learned_baseline import LearnedBaseline
from spec_decode_exporter.monitor.persistence.remembered_engines import RememberedEngines
from spec_decode_exporter.monitor.persistence.state_file import _SEAL, MAX_VALUES
from spec_decode_exporter.reports import reference_file
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.increments import Increment
from tests.fuzz.harness import Harness, file_of, sane

_NOW: Final = 1_790_000_000.0


def check_state(data: bytes) -> None:
    """Check a state file as it is, and any content with a valid checksum."""
    _recalled(data)
    if (held := _held(data)) is not None:
        sealed = _SEAL.written(held)
        assert _SEAL.read(sealed, MAX_VALUES) == held
        _recalled(sealed)


def _recalled(content: bytes) -> None:
    try:
        saved = _SEAL.read(content, MAX_VALUES)
    except UnusableError as error:
        sane(error)
        return
    baselines = RememberedEngines()
    baselines.recall(saved)
    again = baselines.saved(_NOW)
    for entry in again["engines"]:
        _go_on(entry["learnt"])
    for entry in again["baselines"]["entries"]:
        _compare(entry["learned"])


def _go_on(learned: dict[str, object]) -> None:
    """Check drops with the loaded state; it can be saved again."""
    drops = DropDetector(DropPolicy())
    if drops.restore(learned.get("drops") or {}):
        for second in range(120):
            drops.observe(second, second + 1.0, 100, 250, (100, 90, 60))
        drops.status()
        json.dumps(drops.saved(), allow_nan=False)


def _compare(learned: dict[str, object]) -> None:
    """Measure costs against the loaded baseline, and learn more; it can be saved again."""
    baseline = LearnedBaseline()
    assert baseline.restore(learned)
    plain = baseline.plain_times(_NOW)
    for load in (0.5, 1.0, *(time.running_requests for time in plain.times), 1e6):
        drafting = StepTime(max(load, 1e-300), 0.02, 0.001, 9.0, 2000.0, 1.0, 4.0)
        cost = measured_cost(drafting, plain.times, plain.source, another_day=plain.another_day)
        assert cost is None or 0 <= cost.lower <= cost.draft_cost_ratio <= cost.upper < inf
    for second in range(120):
        wall = _NOW + second
        baseline.plain(Increment(wall - 1, wall, (100,) * len(Counter), ()), 8.0, wall, knows_steps=True)
    period = baseline.period(_NOW)
    assert period is not None
    assert period.name
    json.dumps(baseline.saved(), allow_nan=False)


def check_reference(data: bytes) -> None:
    """Check a reference file as it is, and any content with a valid checksum."""
    _referred(data)
    if (held := _held(data)) is not None:
        _referred(reference_file._FORMAT.written(held))


def _referred(content: bytes) -> None:
    try:
        document = reference_file.read(file_of(content, "reference.json"))
    except reference_file.ReferenceFileError as error:
        sane(error)
        return
    assert document.seconds > 0


def _held(data: bytes) -> dict[str, object] | None:
    try:
        held = json.loads(data)
        json.dumps(held, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return held if isinstance(held, dict) else None


_HEAD = ("format", "version", "checksum", "data", "1")
STATE = Harness(
    check_state,
    (
        *_HEAD, "spec-decode-exporter state", "engines", "target", "model_name", "engine", "seen", "learnt", "drops",
        "sudden", "slow", "baseline", "stretches", "tokens",
        "baselines", "entries", "learned", "end", "ended", "requests", "queue", "bounds", "counts", "steps", "rows",
        "polls_per_block", "1e308", "-1", "0.5",
    ),
    json=True,
)  # fmt: skip
REFERENCE = Harness(
    check_reference,
    (
        *_HEAD, "spec-decode-exporter reference", "ended", "2026-11-21T10:00:00Z", "seconds", "exporter_version",
        "engines", "models", "measurement", "quantities", "value", "lower", "upper", "standard_error", "degrees",
        "draft_acceptance_ratio", "model_name", "restarts", "broken_checks", "1e308", "-1", "0.5",
    ),
    json=True,
)  # fmt: skip
