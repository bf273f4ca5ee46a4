"""vLLM's ``--speculative-config`` for a setting: JSON of the keys that are known."""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.recommended_setting import SpeculationSetting
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.config.batch_schedule import SCHEDULE_KEY

_WITHOUT_MODEL: Final = frozenset({"mtp", "ngram", "ngram_gpu", "suffix"})
"""Methods that draft without a model of their own."""
_WITH_MODEL: Final = frozenset(
    {"eagle", "eagle3", "draft_model", "dflash", "dspark", "medusa", "mlp_speculator"}
)
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:+-]{0,255}|/[A-Za-z0-9_./:+-]{1,255}")
"""Names that are safe in a command: a server chooses the name of its draft model."""


class SpeculativeConfig(NamedTuple):
    """JSON for the flag."""

    text: str
    """Empty without a number of tokens."""
    is_complete: bool
    """True if it has every key that vLLM needs; otherwise it has the keys to change."""


def speculative_config(setting: SpeculationSetting, speculation: Speculation) -> SpeculativeConfig:
    """Return vLLM's JSON of a setting, of the keys that the exporter knows; nothing is guessed."""
    if not setting.tokens:
        return SpeculativeConfig("", is_complete=False)
    named = _named(speculation)
    keys: dict[str, object] = {**(named or {}), "num_speculative_tokens": setting.tokens}
    if named is not None and speculation.rejection_method:
        keys["rejection_sample_method"] = speculation.rejection_method
    if setting.schedule:
        keys[SCHEDULE_KEY] = ranges(setting)
    return SpeculativeConfig(json.dumps(keys), named is not None)


def ranges(setting: SpeculationSetting) -> list[tuple[int, int, int]]:
    """Return the ranges of the schedule; the last one ends at the highest load with a known cost."""
    found = list(setting.schedule.ranges)
    if found:
        first, _, tokens = found[-1]
        found[-1] = (first, max(setting.bands[-1].last, first), tokens)
    return found


def _named(speculation: Speculation) -> dict[str, str] | None:
    """Return the keys that name method and draft model; None if one is unknown or not a plain name."""
    method, model = speculation.method, speculation.draft_model
    if method in _WITHOUT_MODEL:
        return {"method": method}
    if method in _WITH_MODEL and _PLAIN_NAME.fullmatch(model):
        return {"method": method, "model": model}
    return None
