"""A server whose passes take the times that were measured on an H100: tests/data/gpu_passes.jsonl.

The file has a pass of the target, one over K + 1 tokens of a request, and K passes of an EAGLE-3 drafter, by
load and context, which are interpolated linearly. Host and prompts come on top.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random

from benchmarks.truth.shapes import Method
from benchmarks.truth.sharp_server import HOSTS, Searcher

PASSES = Path(__file__).parents[2] / "tests/data/gpu_passes.jsonl"
SHORT, LONG = 500, 4000
"""Contexts of most rows."""
DRAFTS = (1, 3, 5)
DRAFTING_SECONDS, PASS_SECONDS = 0.0005, 0.00015
"""Of the host, for a step that drafts and for a pass of the drafter."""
PROMPT_SECONDS, FREE_PROMPT = 20e-6, 100
"""For a token of a prompt, and tokens that a step takes for free: 8 B in 16 bits."""

Times = Mapping[int, float]
"""Seconds by load."""


@cache
def models() -> Mapping[str, Mapping[int, Sequence[Mapping[str, float]]]]:
    """Return rows with flat names by model and context."""
    found: dict[str, dict[int, list[Mapping[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for line in PASSES.read_text().splitlines():
        row = json.loads(line)
        if row.get("context") in {SHORT, LONG}:
            flat = {"running": row["running"], "plain": row["plain"]}
            flat |= {f"{key}{k}": row[key].get(k) for key in ("verify", "eagle3") for k in row[key]}
            found[f"{row['model']} {row['weights']}"][row["context"]].append(flat)
    return found


@cache
def _times(model: str, context: int, name: str) -> Times:
    rows = models()[model].get(context, ())
    return {int(row["running"]): row[name] for row in rows if row.get(name) is not None}


def _at(times: Times, load: float) -> float:
    loads = sorted(times)
    for low, high in pairwise(loads):
        if load <= high or high == loads[-1]:
            share = max(0.0, (load - low) / (high - low))
            return times[low] + share * (times[high] - times[low])
    return times[loads[0]]


@dataclass(frozen=True, slots=True)
class GpuServer:
    """A server with a drafter of K ``tokens``."""

    model: str
    drafter: Searcher
    tokens: int
    host: float
    context: float = 1000.0

    @classmethod
    def drawn(cls, random: Random) -> GpuServer:
        """Draw a server."""
        host = random.uniform(*HOSTS)
        return cls(random.choice(sorted(models())), Searcher(Method.EAGLE3), random.choice(DRAFTS), host)

    def plain_seconds(self, requests: float, prompt_tokens: float = 0.0, **_: bool) -> float:
        """Return the time of a decode step without drafts."""
        return self._pass("plain", requests) + self.host + self._prompts(prompt_tokens)

    def drafting_seconds(
        self, requests: float, drafted: float, prompt_tokens: float = 0.0, **_: float
    ) -> float:
        """Return the time of a decode step in which all requests have a draft."""
        passes = self._pass(f"verify{self.tokens}", requests) + self._pass(f"eagle3{self.tokens}", requests)
        host = self.host + DRAFTING_SECONDS + self.tokens * PASS_SECONDS
        return passes + host * bool(drafted) + self._prompts(prompt_tokens)

    def covered_seconds(self, requests: float, coverage: float, draft_length: float) -> float:
        """Return the time of a step in which all requests have a draft."""
        return self.drafting_seconds(requests, coverage * requests * draft_length)

    def first_pass_seconds(self, requests: float) -> float:
        """Return the time of the drafter in a step without drafts."""
        return self._pass(f"eagle3{self.tokens}", requests) / self.tokens + PASS_SECONDS

    def prompt_seconds(self, prompt_tokens: float) -> float:
        """Return the time of a step with a prompt alone."""
        return self._pass("plain", 1) + self._prompts(prompt_tokens) + self.host

    def _pass(self, name: str, requests: float) -> float:
        """Return the time of a pass; short of the loads that were measured, a context counts by the load."""
        short, long = (_times(self.model, context, name) for context in (SHORT, LONG))
        time = _at(short, requests)
        if not long:
            return time
        load = max(requests, min(long))
        longer = (_at(long, load) - _at(short, load)) * requests / load
        return max(time / 2, time + longer * (self.context - SHORT) / (LONG - SHORT))

    @staticmethod
    def _prompts(tokens: float) -> float:
        return PROMPT_SECONDS * max(0.0, tokens - FREE_PROMPT)
