"""Knowledge of one engine over hours, beyond its windows: the cost of drafting, and drops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from spec_decode_exporter.config.batch_schedule import MAX_POSITIONS
from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.costs.baseline import SAME_DAY_SECONDS, Baseline, BaselineSummary
from spec_decode_exporter.costs.blocks import BlocksByKey, Kept, Piece
from spec_decode_exporter.costs.cost import CostByLoad, CostSource
from spec_decode_exporter.costs.measured_cost import StepsWithoutSpeculation, costs
from spec_decode_exporter.costs.methods import drafts_what_it_finds, kind_of, undrafted_pass
from spec_decode_exporter.costs.steps import StepReader, StepSums, StepTimes, exceeds_steps, include
from spec_decode_exporter.costs.time_saved import DayTime, TimeSaved
from spec_decode_exporter.drops.drops import Drops, DropState
from spec_decode_exporter.figures.window_figures import DRAFTED_SHARE
from spec_decode_exporter.scrape.engines import Counter, Gauge, Latency
from spec_decode_exporter.scrape.sample import Buckets, Sample
from spec_decode_exporter.window.engine_windows import History
from spec_decode_exporter.window.poll import Increment

COMPLETE_AFTER: Final = 60.0
"""Seconds of drafting after which all positions are known: some front ends create them one by one."""
WHOLE_TOKENS: Final = 0.05
"""Distance from a whole number up to which T/D is that of one number of draft tokens."""
_Text = Annotated[str, Field(max_length=1024)]


class DraftingMethod(NamedTuple):
    """Method and draft model; unknown values are empty."""

    method: _Text = ""
    draft_model: _Text = ""
    in_parallel: bool = False  # True if one pass of the drafter drafts all tokens

    def is_another(self, other: DraftingMethod) -> bool:
        """Return whether the two contradict each other; unknown values do not."""
        pairs = (self.method, other.method), (self.draft_model, other.draft_model)
        return any(mine and theirs and mine != theirs for mine, theirs in pairs)

    def completed(self, other: DraftingMethod) -> DraftingMethod:
        """Return this, with unknown values from the other."""
        in_parallel = self.in_parallel or other.in_parallel
        return DraftingMethod(self.method or other.method, self.draft_model or other.draft_model, in_parallel)


@dataclass(slots=True)
class LearnedState:
    """Persisted state of an engine, with its K and drafter: the server may have another one later."""

    tokens: Annotated[int, Field(ge=0, le=MAX_POSITIONS)]
    drafter: DraftingMethod = field(default_factory=DraftingMethod)
    drops: DropState = field(default_factory=DropState)
    plain: StepTimes = field(default_factory=StepTimes)
    """Steps of the polls without drafts, as of a schedule that pauses."""
    used: Kept = field(default_factory=dict)  # by number of draft tokens in use
    today: DayTime = field(default_factory=DayTime)  # decode time, and that without speculation


class Learned:
    """Learns from an engine's increments. Another drafter or K resets all but the steps without drafts."""

    def __init__(self, baseline: Baseline | None = None) -> None:
        """Learn about an engine whose method is not known yet, and about its model in ``baseline``."""
        self.baseline = Baseline() if baseline is None else baseline
        """Shared by the engines that serve the model."""
        self.drops = Drops(DropPolicy())
        self.drafting = StepTimes()  # steps of the polls with drafts
        self.saved = TimeSaved()
        self._plain = StepTimes()
        self.used = BlocksByKey()  # polls by the number of draft tokens in use
        self._reader = StepReader()
        self._latencies: Mapping[Latency, Buckets] | None = None
        self._method = self._known = DraftingMethod()
        self._speculates, self._tokens, self._resets = False, 0, 0
        self._wall = self._drafting_seconds = 0.0
        self._remembered: LearnedState | None = None

    def assume(self, method: DraftingMethod, policy: DropPolicy) -> bool:
        """Replace method and policy; return whether the method is another one, which resets the state."""
        self.drops.use(policy)
        self._method = method
        is_another = method.is_another(self._known)
        self._known = method if is_another else method.completed(self._known)
        if is_another:
            self.used = BlocksByKey()
            self._start_again()
        return is_another

    def observe(
        self, increment: Increment, sample: Sample, history: History, *, speculates: bool | None = True
    ) -> None:
        """Add an increment that ``history`` has already; ``speculates`` is None if that is unknown."""
        if history.window_resets != self._resets:
            self._resets = history.window_resets
            self._start_again()
        self._recall(history.tokens, increment)
        self._learn_steps(increment, sample, history, speculates=speculates)
        if increment.counters.drafts:
            self._tokens = max(self._tokens, history.tokens)

    def costs(self, arms: Sequence[Learned] = ()) -> tuple[CostByLoad, ...]:
        """Return the measured cost by load; ``arms`` serve the model without speculation in an experiment."""
        kept = self.baseline.kept
        others = [StepsWithoutSpeculation(CostSource.EXPERIMENT, [arm.plain for arm in arms])]
        if kept is not None:
            another_day = abs(self._wall - kept.end) > SAME_DAY_SECONDS
            others.append(StepsWithoutSpeculation(CostSource.BASELINE, [kept.steps], another_day))
        own, (method, _, in_parallel) = (self.drafting, self._plain), self._method
        return costs(own, others, kind_of(method, in_parallel=in_parallel), undrafted_pass(method))

    def latency_baseline(self, arms: Sequence[Learned] = ()) -> BaselineSummary | None:
        """Return the newest requests without speculation with histograms, of the target or of an arm."""
        known = [each.baseline.summary(self._wall) for each in (self, *arms)]
        usable = [each for each in known if each and each.histograms and each.first_token_seconds is not None]
        return max(usable, key=attrgetter("end"), default=None)

    @property
    def plain(self) -> StepTimes:
        """Steps without speculation, or of the polls without drafts; the object changes with later ones."""
        if self._speculates:
            return self._plain
        present = self.baseline.present
        return present.steps if present else StepTimes()

    @property
    def state(self) -> LearnedState | None:
        """State to persist, which later increments change; None if nothing was learned.

        One that was not restored yet stays as it is: the engine may be between two processes, or idle.
        """
        today = self.saved.today
        if self._remembered is not None:
            return replace(self._remembered, today=today)
        if not self._tokens:
            return None
        return LearnedState(self._tokens, self._known, self.drops.state, self._plain, self.used.kept, today)

    def remember(self, state: LearnedState) -> None:
        """Restore a state once the engine proves to draft with the same K and drafter; of the day at once."""
        self._remembered, self._drafting_seconds = state, 0.0
        self.saved.today = state.today

    def _learn_steps(
        self, increment: Increment, sample: Sample, history: History, *, speculates: bool | None
    ) -> None:
        """Learn the steps, and the baseline while the engine does not speculate.

        Nothing is learned of steps whose drafts are not counted: they would pass for steps without a draft.
        """
        self._wall, knows_steps = history.wall, history.knows_steps
        counters = increment.counters
        is_uncounted = not counters.drafts and exceeds_steps(
            counters.generation_tokens - counters.first_tokens, counters.decode_steps, increment.load
        )
        is_unknown = speculates is None or (speculates and sample[Counter.DRAFTS] is None)
        if is_unknown or (knows_steps and is_uncounted):
            return
        if speculates != self._speculates:
            self._speculates, self._latencies = bool(speculates), None
        pays = self._speculates and drafts_what_it_finds(self._method.method)
        read = self._reader.read
        steps = read(increment, self._wall, every_step_drafts=pays) if knows_steps else None
        if not self._speculates:
            self._learn_baseline(steps, increment, sample)
            return
        if counters.drafts:
            self.baseline.drafting()
        if steps:
            (self.drafting if steps.drafting else self._plain).add(steps)
        poll = Piece.of(increment, knows_steps=knows_steps)
        tokens = None if poll is None else self._tokens_of(poll, history.tokens)
        if poll is not None and tokens is not None:
            self.used.add(tokens, poll, self._wall)

    def _learn_baseline(self, steps: StepSums | None, increment: Increment, sample: Sample) -> None:
        period = self.baseline.plain(increment, sample.gauge(Gauge.RUNNING_REQUESTS) or 0.0, self._wall)
        if steps:
            period.steps.add(steps)
        if sample.latencies is not None:
            if self._latencies is not None:
                period.add_latencies(self._latencies, sample.latencies, self._wall)
            self._latencies = sample.latencies

    def _tokens_of(self, poll: Piece, most: int) -> int | None:
        """Return the number of draft tokens in use, of a search its maximum; None if a poll mixes several."""
        if drafts_what_it_finds(self._method.method):
            return most or None
        tokens = poll.draft_tokens / poll.drafts if poll.drafts else 0.0
        whole = min(round(tokens), MAX_POSITIONS)
        is_whole = not poll.drafts or poll.drafts >= DRAFTED_SHARE * poll.steps
        return whole if is_whole and abs(tokens - whole) <= WHOLE_TOKENS else None

    def _recall(self, tokens: int, increment: Increment) -> None:
        """Restore the persisted state, or what another drafter leaves of it, once K and drafter are known."""
        saved = self._remembered
        if saved is None:
            return
        if increment.counters.drafts:
            self._drafting_seconds += increment.end - increment.begin
        may_show_more = tokens < saved.tokens and self._drafting_seconds < COMPLETE_AFTER
        if may_show_more or not tokens:
            return
        self._remembered = None
        for place, steps in saved.plain.places.items():
            include(self._plain.places, place, steps)
        if saved.drafter.is_another(self._known):
            return
        self._known = self._known.completed(saved.drafter)
        for number, each in ((number, each) for number, own in saved.used.items() for each in own):
            self.used.include(number, each)
        if saved.tokens == tokens:
            self._tokens = tokens
            self.drops.restore(saved.drops)

    def _start_again(self) -> None:
        self.drafting, self._tokens = StepTimes(), 0
        self.drops.start_again()
