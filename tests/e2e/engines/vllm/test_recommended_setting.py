"""vLLM's own validation accepts the settings that the exporter prints, and looks up the same draft tokens."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from spec_decode_exporter.analysis.load_bands import LoadBand, schedule_of
from spec_decode_exporter.analysis.recommended_setting import SpeculationSetting
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Action
from spec_decode_exporter.cli.recommend import written
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.monitor.snapshot import EngineSnapshot
from spec_decode_exporter.reports.text import TextStyle
from spec_decode_exporter.views.engine_view import EngineView
from tests.fakes.evaluations import advised

pytestmark = pytest.mark.e2e

CHECK = """\
import json, sys
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.spec_decode.dynamic.utils import build_dynamic_sd_schedule_lookup

target, text = sys.argv[1:]
args = EngineArgs(model=target, speculative_config=json.loads(text), max_num_seqs=128)
config = args.create_engine_config().speculative_config
schedule = config.num_speculative_tokens_per_batch_size
lookup = schedule and build_dynamic_sd_schedule_lookup(schedule, 128, config.num_speculative_tokens)
print(json.dumps([config.method, config.num_speculative_tokens, lookup]))
"""
"""Program for vLLM's Python: the whole engine configuration, as ``vllm serve`` makes it, without a model."""
LABELS = {"target": "chat-0", "model_name": "m", "engine": "0"}


def validated(text: str) -> list[object]:
    """Return method, K and the tokens of each batch size, by vLLM; raise if it refuses the setting."""
    python = Path(os.environ["VLLM_VENV"]) / "bin" / "python"
    target = Path(os.environ["VLLM_MODELS"]) / "target"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [python, "-c", CHECK, target, text],
        env={**environment, "VLLM_LOGGING_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: list[object] = json.loads(done.stdout.splitlines()[-1])
    return answer


def flag(busy: EngineSnapshot, bands: list[tuple[int, int, int]], speculation: Speculation) -> str:
    """Return the value of the flag that ``recommend --format vllm`` prints for these bands."""
    known = tuple(LoadBand(*band, 1.5, 0.0, 8, 1.0) for band in bands)
    setting = SpeculationSetting(
        max(band.tokens for band in known), schedule_of(known), True, known, CostSource.MEASURED, (1.0, 64.0)
    )
    view = EngineView(labels=LABELS, snapshot=advised(busy, setting, speculation, Action.KEEP))
    (line,) = [line for line in written([view], "vllm", TextStyle()).splitlines() if not line.startswith("#")]
    name, value = shlex.split(line)
    assert name == "--speculative-config"
    return value


@pytest.mark.parametrize(
    "bands", [[(1, 64, 4)], [(1, 15, 4), (16, 63, 2), (64, 64, 0)], [(1, 2, 0), (3, 64, 3)]]
)
def test_vllm_accepts_a_schedule_and_looks_up_the_same_tokens(busy, bands):
    draft = str(Path(os.environ["VLLM_MODELS"]) / "draft")
    text = flag(busy, bands, Speculation("draft_model", "configured", draft))
    method, tokens, lookup = validated(text)
    assert (method, tokens) == ("draft_model", max(tokens for _, _, tokens in bands))
    if len(bands) == 1:
        assert lookup is None
        return
    for load in range(1, 65):
        assert lookup[load] == next(tokens for first, last, tokens in bands if first <= load <= last)
    assert set(lookup[65:]) == {bands[-1][2]}  # beyond the last range its number continues


def test_vllm_accepts_a_method_without_a_draft_model(busy):
    text = flag(busy, [(1, 7, 4), (8, 64, 0)], Speculation("ngram", "configured"))
    method, tokens, lookup = validated(text)
    assert (method, tokens, lookup[7], lookup[8]) == ("ngram", 4, 4, 0)
