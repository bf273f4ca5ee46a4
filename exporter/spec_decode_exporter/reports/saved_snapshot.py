"""Saved snapshots of the API and observations, as far as commands read them back."""

from __future__ import annotations

import os
from pathlib import Path

from spec_decode_exporter.analysis.verdict import State, Verdict
from spec_decode_exporter.core.files import read_bounded, size_text
from spec_decode_exporter.core.numbers import TooManyValuesError, UnixTime, decode
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.reports.observation_view import ModelView, ObservationView
from spec_decode_exporter.reports.text import json_text
from spec_decode_exporter.views.document import View
from spec_decode_exporter.views.engine_view import SettingView, UsedTokensView
from spec_decode_exporter.views.fleet_view import TargetView

MAX_BYTES, MAX_VALUES = 16 * 2**20, 1_000_000
"""Limits of a JSON document, in bytes and values: an index of 100,000 weights has 10 MB."""


class SavedFileError(ExporterError):
    """A file or a response cannot be used; the text has its name, the reason and the remedy."""


class SavedEngine(View, extra="ignore"):
    """Engine of a target; other fields are ignored."""

    id: str
    target: str
    model_name: str
    engine: str
    state: State
    verdict: Verdict
    verdict_text: str
    method: str
    draft_model: str
    configured_tokens: int | None
    setting: SettingView
    used_tokens: tuple[UsedTokensView, ...] = ()


class SavedSnapshot(View, extra="ignore"):
    """Engines of a snapshot or an observation; other fields are ignored."""

    time: UnixTime = 0.0
    engines: tuple[SavedEngine, ...]
    targets: tuple[TargetView, ...] = ()
    """Targets of an observation."""
    models: tuple[ModelView, ...] = ()
    """Models of an observation; none of an earlier version."""
    seconds: float | None = None
    """Length of an observation; None for a snapshot."""


def parsed(content: bytes) -> SavedSnapshot:
    """Parse a snapshot or an observation; raise ValueError if it is neither, or TooManyValuesError."""
    return SavedSnapshot.model_validate(decode(content, MAX_VALUES))


def read(path: Path) -> SavedSnapshot:
    """Return the snapshot or the observation in a file; raise SavedFileError if it cannot be read as one."""
    try:
        return parsed(read_bounded(path, MAX_BYTES))
    except (OSError, TooManyValuesError) as error:
        raise SavedFileError(f"{path} cannot be read: {getattr(error, 'strerror', '') or error}") from None
    except ValueError:
        raise SavedFileError(
            f"{path}: it is neither a response of /api/v1/snapshot nor the output of observe --format json "
            "of this version"
        ) from None


def read_observation(path: Path) -> SavedSnapshot:
    """Return the observation of ``observe --save`` or ``--format json`` in a file; raise like ``read``."""
    observation = read(path)
    if not observation.models or observation.seconds is None:
        raise SavedFileError(
            f"{path}: it has no measured models; write one with `observe --save` of this version"
        )
    return observation


def read_rates(path: Path, model_name: str | None) -> dict[int | None, float]:
    """Return the acceptance rates of one model by number of draft tokens, for the key ``reference.file``.

    Raises:
        ValueError: The file cannot be read, or does not hold exactly one such model.
    """
    try:
        models = read_observation(path).models
    except SavedFileError as error:
        raise ValueError(f"cannot be used: {error}") from None
    rates = [(each.model_name, each.tokens, each.acceptance.value) for each in models if each.acceptance]
    names = ", ".join(sorted({name for name, *_ in rates}))
    chosen = [each for each in rates if model_name in (None, each[0])]
    if not chosen:
        raise ValueError(f"holds no acceptance of {model_name or 'a model'}; there is {names or 'none'}")
    if len({name for name, *_ in chosen}) > 1:
        raise ValueError(f"holds several models; select one by `model_name`: {names}")
    return {tokens: rate for _, tokens, rate in chosen}


def check_free(path: Path) -> None:
    """Check before the measurement that a file can be written, or raise SavedFileError."""
    if path.exists():
        raise SavedFileError(f"{path} is there already; name another, or remove it")
    if not os.access(path.parent, os.W_OK):
        raise SavedFileError(f"{path} cannot be written: its folder is missing, or not yours to write")


def write(path: Path, view: ObservationView) -> None:
    """Write a new file; raise SavedFileError if that is impossible, or it would be too large to be read."""
    content = json_text(view.model_dump(mode="json")).encode()
    if len(content) > MAX_BYTES:
        raise SavedFileError(f"{path} would be larger than {size_text(MAX_BYTES)}; measure fewer targets")
    try:
        with path.open("xb") as file:
            file.write(content)
    except OSError as error:
        raise SavedFileError(f"{path} cannot be written: {error.strerror or error}") from None
