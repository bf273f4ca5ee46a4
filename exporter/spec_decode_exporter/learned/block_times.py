"""Measured cost of a draft token: step times of an engine with and without drafts.

An engine does not draft if its schedule has no drafts at some batch sizes (vLLM's
``num_speculative_tokens_per_batch_size``). Where it always drafts, the steps without drafts are those of the
baseline of an experiment, which serves the same model, or those that the target took before it drafted. The
formula is that of ``learned.step_time_cost``.

A poll in which only some of the steps have drafts says little: under a schedule, these are steps at another
load. It is not used, unless every step pays for the search of a draft.

One measurement does not determine both c0 and c. So c0 is given in draft tokens, typical of the method. The
measured sum c0·D/S + c·T/S is exact for any split.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import log2
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field, PlainSerializer, PlainValidator, TypeAdapter

from spec_decode_exporter.analysis.cost import CostSource, Curve, Point, measured_curves
from spec_decode_exporter.analysis.typical_costs import every_step_pays, fixed_tokens
from spec_decode_exporter.figures.estimate import ratio
from spec_decode_exporter.learned.step_blocks import BlockSteps, SavedBlocks, StepBlocks, step_time
from spec_decode_exporter.learned.step_time_cost import StepTime, measured_cost
from spec_decode_exporter.window.poll import Increment

PLAIN_SECONDS: Final = 10.0
"""Seconds without drafts under load that count as plain; shorter pauses are of single requests."""
DRAFTED_SHARE: Final = 0.95
"""Minimum D/S of a poll whose steps count as steps with drafts."""
_PER_DOUBLING: Final = 2
"""Buckets of loads per doubling: loads within a factor of √2 are one."""
_MAX_REQUESTS: Final = 2.0**16
MAX_SAVED_LOADS: Final = 12
"""Maximum number of loads in the state file: a range of 64 times."""


class PlainTimes(NamedTuple):
    """Times of plain steps, ascending by load, and their source."""

    times: Sequence[StepTime]
    source: CostSource
    another_day: bool = False


class StepsByLoad:
    """Blocks of decode steps in buckets of similar loads."""

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        self._buckets: dict[int, StepBlocks] = {}

    def add(self, increment: Increment, running: float, moment: float) -> None:
        """Add the steps of an increment at a load; without running requests the load is unknown."""
        if running <= 0:
            return
        its = increment.counters
        requests = its.decode_steps * running
        steps = BlockSteps(its.decode_nanoseconds, its.decode_steps, requests, its.draft_tokens, its.drafts)
        self._buckets.setdefault(_bucket(running), StepBlocks()).add(steps, moment)

    def clear(self) -> None:
        """Forget all steps."""
        self._buckets.clear()

    def saved(self) -> list[SavedBlocks]:
        """Return the steps without drafts at the ``MAX_SAVED_LOADS`` loads with the most steps."""
        saved = [blocks.saved() for blocks in self._buckets.values()]
        return sorted(saved, key=lambda each: -sum(row[1] for row in each.rows))[:MAX_SAVED_LOADS]

    def restore(self, saved: Iterable[SavedBlocks]) -> None:
        """Continue from the result of ``saved``.

        Raises:
            ValueError: It is invalid.
        """
        buckets: dict[int, StepBlocks] = {}
        for each in saved:
            load = ratio(sum(row[2] for row in each.rows), sum(row[1] for row in each.rows))
            if not load:
                raise ValueError("has steps without a load")
            blocks = buckets.setdefault(_bucket(load), StepBlocks())
            blocks.restore(each)
        self._buckets = buckets

    @property
    def buckets(self) -> Mapping[int, StepBlocks]:
        """The blocks by bucket."""
        return self._buckets


class BlockTimes:
    """Times of decode steps with and without drafts, by load."""

    def __init__(self) -> None:
        self._drafting = StepsByLoad()
        self.plain = StepsByLoad()
        """Steps without drafts; the object changes with later increments."""
        self._pause: list[tuple[Increment, float]] = []
        self._pause_seconds = 0.0
        self.now = 0.0
        """Time of the newest increment (monotonic)."""

    def observe(self, increment: Increment, running_requests: float | None, *, plain: bool = True) -> None:
        """Add the increment of two polls, and the load at its end.

        Args:
            increment: Increment of an engine with known decode steps.
            running_requests: Load at its end.
            plain: Whether a step without drafts costs as much as a plain step.
        """
        self.now = increment.end
        running = running_requests or 0.0
        drafts, steps = increment.counters.drafts, increment.counters.decode_steps
        if drafts:
            self._end_pause()
            if steps and (drafts >= DRAFTED_SHARE * steps or not plain):
                self._drafting.add(increment, running, increment.end)
        elif plain and steps:
            self._take_undrafted(increment, running)

    def forget_drafting(self) -> None:
        """Reset the steps with drafts after a change of the method or its models; keep the plain ones."""
        self._drafting.clear()

    def forget_plain(self) -> None:
        """Reset the steps without drafts: they are of a process without speculation."""
        self.plain.clear()
        self._end_pause()

    def drafting_times(self) -> tuple[StepTime, ...]:
        """Return the mean times of steps with drafts, ascending by load."""
        return tuple(times_by_load([self._drafting], self.now))

    def costs(self, others: Iterable[PlainTimes] = (), method: str = "") -> tuple[Curve, ...]:
        """Return the cost at every load with enough steps with and without drafts.

        Args:
            others: Plain steps that are used where this engine has too few, the most certain first.
            method: Method of speculation.
        """
        own = PlainTimes(times_by_load([self.plain], self.now), CostSource.MEASURED)
        return costs_by_load(self.drafting_times, (own, *others), method)

    def _take_undrafted(self, increment: Increment, running: float) -> None:
        """Hold steps without drafts until there are enough in a row."""
        self._pause_seconds += increment.end - increment.begin
        self._pause.append((increment, running))
        if self._pause_seconds >= PLAIN_SECONDS:
            for each, load in self._pause:
                self.plain.add(each, load, each.end)
            self._pause.clear()

    def _end_pause(self) -> None:
        self._pause.clear()
        self._pause_seconds = 0.0


def times_by_load(engines: Iterable[StepsByLoad], now: float) -> list[StepTime]:
    """Return the mean step times of several engines at each load, ascending by load."""
    merged: defaultdict[int, list[StepBlocks]] = defaultdict(list)
    for engine in engines:
        for bucket, blocks in engine.buckets.items():
            merged[bucket].append(blocks)
    times = (step_time(blocks, now) for blocks in merged.values())
    return sorted((time for time in times if time is not None), key=lambda time: time.running_requests)


def costs_by_load(
    drafting: Callable[[], Sequence[StepTime]], plain: Iterable[PlainTimes], method: str
) -> tuple[Curve, ...]:
    """Return the cost at every load with enough steps with and without drafts.

    Args:
        drafting: Returns the times of steps with drafts, ascending by load.
        plain: Plain steps, the most certain first.
        method: Method of speculation: it splits a measured sum into c and c0.
    """
    known = [each for each in plain if each.times]
    if not known:
        return ()
    costs = (next(_costs(steps, known, method), None) for steps in drafting())
    return measured_curves((cost for cost in costs if cost), method)


def _costs(
    drafting: StepTime, plain: Iterable[PlainTimes], method: str
) -> Iterator[tuple[CostSource, Point]]:
    """Yield the cost at one load by each source that has enough plain steps near it."""
    for each in plain:
        point = measured_cost(
            drafting,
            each.times,
            fixed_tokens=fixed_tokens(method),
            every_step_pays=every_step_pays(method),
            another_day=each.another_day,
        )
        if point:
            yield each.source, point


def _bucket(running_requests: float) -> int:
    return round(_PER_DOUBLING * log2(min(max(running_requests, 1.0), _MAX_REQUESTS)))


_SAVED: Final = TypeAdapter(Annotated[list[SavedBlocks], Field(max_length=MAX_SAVED_LOADS)])


def saved_blocks() -> tuple[Any, ...]:
    """Return how blocks are persisted."""

    def restored(saved: object) -> StepsByLoad:
        if isinstance(saved, StepsByLoad):
            return saved
        blocks = StepsByLoad()
        blocks.restore(_SAVED.validate_python(saved))
        return blocks

    def saved(blocks: StepsByLoad) -> object:
        return _SAVED.dump_python(blocks.saved(), mode="json")

    return PlainValidator(restored), PlainSerializer(saved)
