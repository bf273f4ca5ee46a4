"""Cost of a draft token at each load, by regression over polls that may be partly plain.

Near a load the time of a step is fitted over all polls, of the engine and of others that serve the same model
without speculation,

    y = t0·(1 + g·x) + s·f + p·v        x = ln L less that of the claimed load

so κ = 1 + s/t0 is the time of a step that drafts over that of one without, at that load. ``steps`` has the
regressors. Sources differ in nothing but whose steps without drafts are added.

- *Growth.* Where a schedule pauses by load alone, f is nearly a function of x, and g decides κ. The time of a
  plain step does not fall with the load, and grows at most as the load does: κ is fitted at g of 0 and of 1,
  and the bounds contain both.
- *Load.* s grows with the load where arithmetic limits steps: one more fit has f·x.
- *Prefills.* Plain steps that memory limits take prefills for free; drafting ones near the limit of
  arithmetic do not: one more fit has f·v in place of v. Where prefills take longer than a plain step, nothing
  is known: t0 is the small difference of two large times.
- *Guess.* A fit with both, and what is usual (``USUAL_GROWTH``, ``USUAL_SLOPE``) as observations beside the
  polls, by Bayes' rule (ridge regression; A. Hoerl and R. Kennard, *Technometrics* 12, 1970).
- *Contexts* of others: with r the context of drafting steps over that of plain ones, t0 becomes t0·r^0.25;
  its bounds are t0 and t0·r^0.75. Contexts also vary within minutes: ``slow_error``.
- *Drafter*: it runs in the engine's own steps without drafts too, ``undrafted``. κ beside them is multiplied
  by 1 + that.

One measurement does not determine both c0 and c. So c0 is given in draft tokens, typical of the method.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import hypot, isfinite
from operator import attrgetter
from typing import Final, NamedTuple

from spec_decode_exporter.costs.cost import (
    CostAtLoad,
    CostByLoad,
    CostSource,
    fixed_tokens,
    is_near,
)
from spec_decode_exporter.costs.methods import LAYER, NOTHING, Interval
from spec_decode_exporter.costs.regression import Fit, Matrix, added, deviation, fit
from spec_decode_exporter.costs.steps import (
    LOAD,
    PROMPT,
    RATE,
    SHARE,
    SHARE_LOAD,
    SHARE_PROMPT,
    SHARE_RATE,
    TIME,
    StepSums,
    StepTimes,
    total,
)
from spec_decode_exporter.figures.student_t import NORMAL_975, t_quantile

MIN_SECONDS: Final = 60.0  # seconds of the engine near a load, with steps of both kinds
MIN_SECONDS_BESIDE: Final = 30.0
"""The same beside steps of others without speculation: it has to show those that draft alone."""
MIN_DEVIATION: Final = 0.1
"""Standard deviation of f that is exceeded: with less, nothing separates drafting steps from plain ones."""
MOST_OTHERS: Final = 9.0
"""Weight of steps of others over that of the engine's own, at most: a day of them would hide a minute."""
LEAST_ERROR: Final = 0.05  # least half-width of the bounds of κ, relative, whatever the amount of data
REACHES: Final = (1, 2)
"""Places on each side of a load whose steps count; the second if the first shows no cost at any load."""
POSSIBLE_GROWTH: Final = (0.0, 1.0)
USUAL_GROWTH: Final = (0.3, 0.3)
"""Mean and standard deviation of g; of seven models on an H100 0.34, 0.27 (tests/data/gpu_passes.jsonl)."""
USUAL_SLOPE: Final = (0.6, 0.3)
"""Mean of ds/dx / s, and standard deviation of ds/dx / t0: 0.58 and 0.33 there."""
DRAFTING_PREFILLS: Final = 0.15
"""Excess of a prefill in drafting steps over that in plain ones. Assumed: 0 where arithmetic limits both."""
LINE_MISFIT, LINE_POINTS = 0.03, 16
"""Relative difference of a step from these lines, as by the padding of CUDA graphs, and at how many loads."""
UNSURE: Final = 1.5  # ratio of ranges from which on a cost is much surer than another
MAX_HALF: Final = 10.0  # greatest half-width of a fit, in κ; that of the fit with f·x if it is unknown
CONTEXT_EXPONENT, STEEPEST_CONTEXT = 0.25, 0.75
ANOTHER_DAY: Final = 0.10
"""Relative difference of step times without speculation between two days at the same load."""

_INSTRUMENTS: Final = {PROMPT: RATE, SHARE_PROMPT: SHARE_RATE}


class StepsWithoutSpeculation(NamedTuple):
    """Steps of others that serve the same model without speculation."""

    source: CostSource
    times: Sequence[StepTimes]
    another_day: bool = False
    undrafted: Interval = NOTHING  # what a drafter costs in them
    is_repeated: bool = False  # True if drafting steps run as long a pass for each further token: κ limits it


def costs(
    own: Sequence[StepTimes],
    others: Iterable[StepsWithoutSpeculation],
    kind: str = "",
    undrafted: Interval = NOTHING,
) -> tuple[CostByLoad, ...]:
    """Return the cost at every load that shows it.

    Args:
        own: Steps of the engine, with and without drafts.
        others: Plain steps that are added where the engine has too few, the most certain first.
        kind: How the method drafts: it splits a measured sum into c and c0.
        undrafted: What the drafter costs in the engine's own steps without drafts: see ``undrafted_pass``.
    """
    sources = [
        StepsWithoutSpeculation(CostSource.MEASURED, (), False, undrafted, kind == LAYER),
        *(each for each in others if each.times),
    ]
    known = [(place, sums) for times in own for place, sums in times.places.items()]
    always = 1 - MIN_DEVIATION**2  # a mean f above it has no larger deviation
    if len(sources) == 1 and all(sums.drafting > always * sums.triangle[0] for _, sums in known):
        return ()
    places = sorted({place for place, sums in known if sums.drafting})
    tokens = max((sums.tokens_of_draft for _, sums in known if sums.drafting), default=1.0)
    fixed, found = fixed_tokens(kind, tokens), list[tuple[CostSource, CostAtLoad]]()
    for reach in REACHES:
        found = found or [
            each for place in places for each in islice(_costs(own, place, reach, sources, fixed), 1)
        ]
    return tuple(
        CostByLoad(points, source, step_tokens=fixed)
        for source in CostSource
        if (points := _surest([point for named, point in found if named is source]))
    )


def _surest(points: Sequence[CostAtLoad]) -> tuple[CostAtLoad, ...]:
    """Return the costs of a source by load, without those near a much surer one within their range.

    That one is valid there too: beside a narrow range of loads without drafts, both kinds of steps are at
    different loads. A cost that excludes a part of the surer one's range contradicts it, and remains.
    """
    return tuple(
        point
        for point in sorted(points, key=attrgetter("running_requests"))
        if not any(
            is_near(other.running_requests, point.running_requests)
            and point.token.high - point.token.low > UNSURE * (other.token.high - other.token.low)
            and point.token.low <= other.token.low <= other.token.high <= point.token.high
            for other in points
        )
    )


def _costs(
    own: Sequence[StepTimes], place: int, reach: int, sources: Iterable[StepsWithoutSpeculation], fixed: float
) -> Iterator[tuple[CostSource, CostAtLoad]]:
    """Yield the cost near a load by each source that shows it."""
    drafting = total(times.near(place, reach) for times in own)
    if drafting is None:
        return
    for source in sources:
        if drafting.seconds < (MIN_SECONDS_BESIDE if source.times else MIN_SECONDS):
            continue
        plain = total(
            times.near(place, reach) for times in {id(times): times for times in source.times}.values()
        )
        if plain is not None or not source.times:
            point = _point(drafting, plain, source, fixed)
            if point is not None:
                yield source.source, point


def _point(
    own: StepSums, plain: StepSums | None, source: StepsWithoutSpeculation, fixed: float
) -> CostAtLoad | None:
    """Return the cost by one source; None if the steps do not show it."""
    try:
        kappa = step_ratio(own, plain, another_day=source.another_day)
        tokens, running = fixed + own.tokens_of_draft, own.running
    except ArithmeticError:  # numbers of a restored state contradict each other
        return None
    if kappa is None or tokens <= 0 or not all(map(isfinite, (*kappa, running))):
        return None
    passes, shares = own.tokens_of_draft - 1, source.undrafted
    if source.is_repeated and passes > 0:
        # (K - 1)·pass ≤ s, so that its share of the steps without drafts is at most (κ - 1)/(K - 1).
        most = [max(0.0, each - 1) / passes for each in kappa]
        shares = Interval(
            *(min(own, each / max(1 - each, 0.1)) for own, each in zip(shares, most, strict=True))
        )
    longer = (each * (1 + share) for each, share in zip(kappa, shares, strict=True))
    return CostAtLoad(running, Interval(*(max(0.0, each - 1) / tokens for each in longer)))


def step_ratio(own: StepSums, plain: StepSums | None = None, *, another_day: bool = False) -> Interval | None:
    """Return κ with its bounds; None if the steps and the plain ones of others do not show it."""
    if plain is None:
        return _fitted(_claimed(own.gram, own), own.polls, 0.0)
    longer = own.mean_context / plain.mean_context if own.mean_context and plain.mean_context else 1.0
    middle, scaled = longer**CONTEXT_EXPONENT, plain.gram
    for time in (PROMPT, SHARE_PROMPT, TIME):
        scaled = added(scaled, time, time, middle - 1)
    weight = min(1.0, MOST_OTHERS * own.gram[0][0] / plain.gram[0][0])
    rows = zip(own.gram, scaled, strict=True)
    both = [[a + weight * b for a, b in zip(*row, strict=True)] for row in rows]
    polls, slow = own.polls + weight * plain.polls, hypot(own.slow_error, plain.slow_error)
    found = _fitted(_claimed(both, own), polls, slow)
    if found is None:
        return None
    day = ANOTHER_DAY if another_day else 0.0
    low, high = sorted((1.0, longer**STEEPEST_CONTEXT))
    return Interval(
        found.low * middle / (high * (1 + day)), found.guess, found.high * middle / (low * (1 - day))
    )


def _claimed(gram: Matrix, own: StepSums) -> Matrix:
    """Return the sums with x in place of ln L: it is 0 at the mean load of the steps that draft."""
    load = own.triangle[SHARE_LOAD] / own.drafting if own.drafting else 0.0
    return added(added(gram, LOAD, 0, -load), SHARE_LOAD, SHARE, -load)


def _fitted(gram: Matrix, polls: float, slow: float) -> Interval | None:
    """Return κ at x = 0 with its bounds; ``slow`` is a relative standard error that residuals do not show."""
    if deviation(gram, SHARE) <= MIN_DEVIATION:
        return None
    likely = _fit(_with_usual(gram), polls, PROMPT, LOAD, SHARE_LOAD)
    if likely is None or likely.coefficients[0] <= 0:
        return None
    prefill = sum(likely.coefficients[4:]) * gram[0][PROMPT] / gram[0][0]
    if prefill > likely.coefficients[0]:
        return None
    by_growth = [added(gram, 0, LOAD, each) for each in (*POSSIBLE_GROWTH, USUAL_GROWTH[0])]
    fits = [_ratio(_fit(each, polls, PROMPT), slow) for each in by_growth[:2]]
    fits.append(_ratio(_fit(by_growth[2], polls, SHARE_PROMPT), slow))
    fits.append(_ratio(_fit(gram, polls, PROMPT, LOAD, SHARE_LOAD), slow) or (1.0, MAX_HALF))
    known = [(value, min(half, MAX_HALF)) for value, half in filter(None, fits)]
    if len(known) < len(fits):
        return None
    low, high = min(value - half for value, half in known), max(value + half for value, half in known)
    return Interval(low, min(max(1 + likely.ratio(SHARE)[0], low), high), high)


def _with_usual(gram: Matrix) -> Matrix:
    """Return the sums with what is usual as further observations; the fit weighs them against the polls."""
    (growth, growth_error), (slope, slope_error) = USUAL_GROWTH, USUAL_SLOPE
    likely = added(added(gram, 0, LOAD, growth), SHARE, SHARE_LOAD, slope)
    for variable, other in ((PROMPT, SHARE_PROMPT), (RATE, SHARE_RATE)):
        likely = added(likely, variable, other, DRAFTING_PREFILLS)
    for variable, error in ((LOAD, growth_error), (SHARE_LOAD, slope_error)):
        likely[variable][variable] += gram[0][0] / LINE_POINTS * (LINE_MISFIT / error) ** 2
    return likely


def _fit(gram: Matrix, polls: float, prefills: int, *more: int) -> Fit | None:
    """Fit y on 1, f, more, and prefills; without these if they would shorten steps.

    v contains the noise of y, so u is its instrument. Slow steps also admit fewer prompts, which may look as
    if prefills made steps fast.
    """
    regressors = (0, SHARE, *more, prefills)
    found = fit(gram, regressors, (*regressors[:-1], _INSTRUMENTS[prefills]), TIME, polls)
    if found is None or found.coefficients[-1] >= 0:
        return found
    return fit(gram, regressors[:-1], regressors[:-1], TIME, polls)


def _ratio(found: Fit | None, slow: float) -> tuple[float, float] | None:
    """Return κ and its half-width."""
    if found is None or found.coefficients[0] <= 0 or not found.inverse[SHARE][SHARE]:
        return None
    longer, error = found.ratio(SHARE)
    kappa = 1 + longer
    return kappa, hypot(t_quantile(found.degrees) * error, LEAST_ERROR * kappa, NORMAL_975 * slow * kappa)
