"""A real llama.cpp on the CPU that serves the tiny models, and the requests that it gets."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clients import Api, Body, Truth
from gguf_models import NORMAL, TOKENS
from process import Server, serve

from tests.e2e.conftest import free_port

PROGRAM = Path(__file__).with_name("serve.py")
SLOTS = 4
CONTEXT = 1024  # tokens of a request: the prompt's and the answer's
WORDS = [number for number, (_, kind) in enumerate(TOKENS) if kind == NORMAL]
SYNTHETIC_RATES = "speculative.synth_rates"
"""Accept with these probabilities by position, whatever the models say: ``--spec-synth-rates``."""
ALL_TOKENS = {"ignore_eos": True, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
"""Sample from the whole vocabulary, and stop at the number of tokens alone."""


def draft_model(tokens: int) -> dict[str, Any]:
    """Speculate with the draft model, as by ``--spec-type draft-simple --spec-draft-n-max``."""
    return {
        "type": "draft-simple",
        "speculative.draft.mparams.path": f"{os.environ['LLAMACPP_MODELS']}/draft.gguf",
        "speculative.draft.n_max": tokens,
    }


def ngram(size: int, tokens: int) -> dict[str, Any]:
    """Speculate by looking up what followed the last ``size`` tokens earlier in the same text."""
    return {
        "type": "ngram-simple",
        "speculative.ngram_simple.size_n": size,
        "speculative.ngram_simple.size_m": tokens,
    }


def requests(tokens: int, prompt: int = 8) -> Api:
    """Ask for answers of ``tokens`` after prompts of ``prompt`` random tokens."""
    chance = random.Random(prompt)
    prompts = [chance.choices(WORDS, k=prompt) for _ in range(1000)]
    return Api("/completion", prompts, [tokens], ALL_TOKENS, of_timings)


def of_timings(body: Body) -> Truth:
    """Read one response. It does not count drafts, nor by position; without a draft it has no such key at all."""
    timings = body["timings"]
    return Truth(
        requests=1,
        draft_tokens=timings.get("draft_n", 0),
        accepted_tokens=timings.get("draft_n_accepted", 0),
        generation_tokens=timings["predicted_n"],
        decode_seconds=timings["predicted_ms"] / 1000,
    )


@contextlib.contextmanager
def llamacpp(
    name: str, flags: dict[str, Any], *, model: str = "target", slots: int = SLOTS
) -> Iterator[Server]:
    """Run llama.cpp until the block ends; the block begins when it has loaded its models."""
    port = free_port()
    path = f"{os.environ['LLAMACPP_MODELS']}/{model}.gguf"
    size = {"model.path": path, "n_parallel": slots, "n_ctx": slots * CONTEXT}
    command = [sys.executable, str(PROGRAM), str(port), json.dumps(size | flags)]
    package = {"PYTHONPATH": os.environ["LLAMACPP"]}
    with serve(command, name=name, port=port, health="/health", environment=package) as server:
        yield server
