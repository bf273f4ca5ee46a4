"""Documents of the schedule that measures the cost of drafting, or of the reason why none can."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil
from shlex import quote
from typing import Final

from spec_decode_exporter.analysis.measuring_schedule import (
    LoadTime,
    MeasuringBand,
    MeasuringSchedule,
    NoMeasuring,
    measuring_schedule,
)
from spec_decode_exporter.analysis.missing_evidence import Way
from spec_decode_exporter.analysis.recommended_setting import Obstacle, no_measuring, obstacles
from spec_decode_exporter.config.batch_schedule import SCHEDULE_KEY, BatchSchedule, batch_schedule
from spec_decode_exporter.core.number_formats import percent, plural
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.views.document import View, at
from spec_decode_exporter.views.setting_text import OBSTACLES, config_of, loads_text

_PLAIN_PERIOD: Final = (
    "Instead, restart it without speculation for ten minutes of traffic: the exporter measures it."
)
REASONS: Final[Mapping[NoMeasuring, str]] = {
    NoMeasuring.KNOWN: "The cost of drafting is known, and so is whether it pays: there is nothing to measure.",
    NoMeasuring.MEASURING: "The schedule in force measures the cost: it drafts nothing {loads}. Wait for some minutes of these loads.",
    NoMeasuring.NOT_VLLM: "Only vLLM takes a schedule by load. Instead, serve one replica without drafts, and compare both in an experiment.",
    NoMeasuring.DATA_PARALLEL: f"vLLM ignores a schedule with data parallelism. {_PLAIN_PERIOD}",
    NoMeasuring.ADAPTIVE: f"The engine chooses how many drafts it verifies, so no range of loads is without drafts. {_PLAIN_PERIOD}",
    NoMeasuring.SEARCH: f"The method searches in every step, without a draft too. {_PLAIN_PERIOD}",
    NoMeasuring.NO_TOKENS: "The engine does not draft, or its number of draft tokens is unknown.",
    NoMeasuring.NO_STEPS: "The loads are not known yet: it takes a minute of requests, on an engine that counts decode steps.",
    NoMeasuring.CONSTANT_LOAD: f"The load hardly changes: no range of loads takes a small part of the time. {_PLAIN_PERIOD}",
}  # fmt: skip
"""Reasons why no schedule can measure the cost, and remedies."""
_BAND: Final = BatchSchedule((1, 2, 3), (1, 0, 1))
"""Any schedule with a band."""


class ObstacleView(View):
    """Reason against a schedule."""

    name: Obstacle
    text: str = at("The reason and the remedy.")


class MeasuringView(View):
    """Schedule that measures the cost of drafting: it drafts nothing in narrow bands of load."""

    # fmt: off
    reason: NoMeasuring | None = at("Reason why no schedule can measure it; null with a schedule.")
    text: str = at("What the schedule does, what it costs and how long it takes, or the reason against one.")
    loads: tuple[LoadTime, ...] = at("Loads that were seen: mean decoding requests, relative standard deviation, and seconds.")
    bands: tuple[MeasuringBand, ...] = at("Ascending by load; empty without a schedule.", default=())
    schedule: tuple[tuple[int, int, int], ...] = at("`num_speculative_tokens_per_batch_size` to set; empty without one.", default=())
    speculative_config: str = at("Value of vLLM's `--speculative-config` with the schedule, JSON; empty without one.", default="")
    present_config: str = at("The value in force, to go back to.")
    complete: bool = at("Whether both have all keys that vLLM needs; else they have those to change.")
    share_ratio: float | None = at("Share of the busy time without drafts; null without a schedule.", default=None)
    price_ratio: float | None = at("Share of the tokens per second that this costs at most; null if it is unknown.", default=None)
    seconds: float | None = at("Time until the cost is known at these loads; null without a schedule.", default=None)
    obstacles: tuple[ObstacleView, ...] = at("Reasons why vLLM ignores the schedule, or why it measures less.", default=())
    # fmt: on


def measuring_view(snapshot: EngineSnapshot) -> MeasuringView:
    """Return the document of an engine's measuring schedule."""
    evaluation = snapshot.evaluation
    known, bounds, present = (
        evaluation.known,
        evaluation.longest.speedup_range,
        evaluation.known.speculation.schedule,
    )
    reason = no_measuring(known, evaluation.cost, evaluation.verdict, snapshot.tokens)
    config = config_of(snapshot.tokens, present.up_to(_highest(known.loads)), known.speculation)
    view = MeasuringView(
        reason=reason,
        text="" if reason is None else REASONS[reason].format(loads=loads_text(present.measuring_bands)),
        loads=tuple(known.loads),
        present_config=config.text,
        complete=config.is_complete,
        obstacles=tuple(
            ObstacleView(name=each, text=_warning(each).format(tokens=plural(snapshot.tokens, "token")))
            for each in obstacles(known, _BAND)
        ),
    )
    return view if reason else with_schedule([view], bounds and bounds.estimate.upper)


def _warning(obstacle: Obstacle) -> str:
    piecewise = (
        " They make steps with and without drafts longer alike, so the measured cost would be too low."
    )
    return f"{OBSTACLES[obstacle]}{piecewise if obstacle is Obstacle.PIECEWISE_GRAPHS else ''}"


def with_schedule(engines: Sequence[MeasuringView], speedup: float | None) -> MeasuringView:
    """Return the document of one schedule for engines alike; ``speedup`` is the highest possible one."""
    first, loads = engines[0], tuple(load for engine in engines for load in engine.loads)
    keys = json.loads(first.present_config)
    found = measuring_schedule(loads, keys["num_speculative_tokens"], batch_schedule(keys.get(SCHEDULE_KEY)))
    if isinstance(found, NoMeasuring):
        return first.model_copy(update={"reason": found, "text": REASONS[found], "loads": loads})
    ranges = found.schedule.up_to(_highest(loads))
    price = found.share_ratio * max(0.0, 1 - 1 / speedup) if speedup else None
    more = {
        "reason": None,
        "text": _text(found, price),
        "loads": loads,
        "bands": found.bands,
        "schedule": tuple(ranges),
        "speculative_config": json.dumps({**keys, SCHEDULE_KEY: ranges}),
        "share_ratio": found.share_ratio,
        "price_ratio": price,
        "seconds": found.seconds,
    }
    return first.model_copy(update=more)


def with_measuring(way: Way, its: MeasuringView) -> Way:
    """Return the way to know by a schedule with this one: its loads, its price, and what to paste."""
    by = (
        "a flag of vLLM whose schedule"
        if its.complete
        else "a schedule (`recommend --measure` prints it) that"
    )
    text = f"Restart the server with {by} drafts nothing {_loads_of(its.bands)}: it measures itself"
    if its.obstacles:
        text += "; read the warnings of `spec-decode-exporter recommend --measure` first"
    minutes, price = _minutes(its.seconds or 0.0), its.price_ratio
    return replace(
        way,
        text=text,
        takes=f"a restart and about {minutes} of such traffic",
        costs=way.costs if price is None else f"at most {percent(price)} of the tokens per second",
        paste=f"--speculative-config {quote(its.speculative_config)}" if its.complete else way.paste,
    )


def _highest(loads: Sequence[LoadTime]) -> int:
    return 2 * max((round(load.running_requests) for load in loads), default=1)


def _minutes(seconds: float) -> str:
    return plural(ceil(seconds / 60), "minute")


def _loads_of(bands: Sequence[MeasuringBand]) -> str:
    return loads_text([(band.first, band.last) for band in bands])


def _text(found: MeasuringSchedule, price: float | None) -> str:
    loads = _loads_of(found.bands)
    costs = "" if price is None else f" That costs at most about {percent(price)} of the tokens per second."
    return (
        f"Draft nothing {loads}, where the engine spends {percent(found.share_ratio)} of its busy time.{costs} "
        f"At this traffic the cost is known after about {_minutes(found.seconds)}."
    )
