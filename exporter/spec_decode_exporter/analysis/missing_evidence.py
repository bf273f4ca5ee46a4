"""Evidence that a verdict needs and lacks, the time that it takes, and ways to measure the cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, inf, log
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.verdict import WHOLE_WINDOW, Verdict
from spec_decode_exporter.analysis.window_evaluation import MIN_VERDICT_REQUESTS, WindowEvaluation
from spec_decode_exporter.config.types import SettingsPlace
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.costs.methods import METHODS, present_name
from spec_decode_exporter.figures.estimate import MIN_BOUND_REQUESTS, SHORT_SECONDS
from spec_decode_exporter.window.engine_windows import MIN_INCREMENTS

FIRST_SECONDS: Final = SHORT_SECONDS / 2
"""Minimum of the longest window: from 15 s on bounds are as sure as later (docs/explanation/coverage.md)."""
MIN_SECONDS: Final = WHOLE_WINDOW * SHORT_SECONDS
"""Minimum of a window since a change, or that replaces a longer one: it is chosen by its own data."""


class Evidence(StrEnum):
    """Kind of evidence."""

    DRAFTS = "drafts"
    REQUESTS = "requests"  # requests that pass one after the other, as of equal length
    SECONDS = "seconds"
    POLLS = "polls"
    HALF_WIDTH = "half_width"
    """Half-width of the acceptance length's bounds, relative to it: at most ``needed``."""
    LOWEST_SPEEDUP = "lowest_speedup"  # lower bound of the speed-up


class MissingEvidence(NamedTuple):
    """Evidence that is needed, and how much of it was seen."""

    evidence: Evidence
    needed: float
    seen: float


def missing(its: WindowEvaluation, longest: float) -> tuple[MissingEvidence, ...]:
    """Return the evidence that is missing for a verdict; any one of several suffices.

    Args:
        its: Window without a verdict.
        longest: Length of the longest window in seconds.
    """
    drafts, polls, policy = its.total.drafts or 0, its.window.polls, its.known.policy
    if drafts < policy.min_drafts:
        return (MissingEvidence(Evidence.DRAFTS, policy.min_drafts, drafts),)
    if polls < MIN_INCREMENTS:
        return (MissingEvidence(Evidence.POLLS, MIN_INCREMENTS, polls),)
    if its.is_partial:
        return _until_enough(its, longest)
    if its.speedup_range is not None and not its.is_insufficient:
        lowest = its.speedup_range.estimate.lower
        return (MissingEvidence(Evidence.LOWEST_SPEEDUP, policy.speedup.harmful, lowest),)
    length = its.acceptance_length_bounds
    if length is None:
        return (MissingEvidence(Evidence.REQUESTS, MIN_VERDICT_REQUESTS, its.effective_requests or 0.0),)
    return (MissingEvidence(Evidence.HALF_WIDTH, policy.max_half_width, length.half_width / length.value),)


def least_seconds(length: float, longest: float) -> float:
    """Return the seconds that bounds of an evaluated window need, by the lengths of both windows."""
    return min(FIRST_SECONDS if length >= longest else MIN_SECONDS, longest / 2)


def _until_enough(its: WindowEvaluation, longest: float) -> tuple[MissingEvidence, ...]:
    """Return the ends of a wait for bounds, or for half of the longest window."""
    seconds, requests, half = its.window.seconds, its.effective_requests, longest / 2
    if requests is not None and requests < MIN_BOUND_REQUESTS:
        few_requests = MissingEvidence(Evidence.REQUESTS, MIN_BOUND_REQUESTS, requests)
        return few_requests, MissingEvidence(Evidence.SECONDS, half, seconds)
    least = least_seconds(its.window.length, longest)
    is_early = requests is not None and seconds < least
    return (MissingEvidence(Evidence.SECONDS, least if is_early else half, seconds),)


def seconds_to_verdict(its: WindowEvaluation, longest: float) -> float | None:
    """Return the seconds from the newest poll to the first verdict, at the present rate.

    Infinite if too few requests or drafts pass; None if time alone does not bring a verdict.

    Args:
        its: Window without a verdict.
        longest: Length of the longest window in seconds.
    """
    seconds, drafts, least = its.window.seconds, its.total.drafts or 0, its.known.policy.min_drafts
    if its.window.polls < MIN_INCREMENTS or not drafts or not (its.is_partial or drafts < least):
        return None
    requests, half = its.effective_requests or 0.0, longest / 2

    def until(needed: float, seen: float) -> float:
        """Return the seconds until ``needed`` were seen; infinite if they do not fit into a window."""
        length = needed * seconds / seen if seen else inf
        return length - seconds if length <= longest else inf

    bounds = max(least_seconds(its.window.length, longest) - seconds, until(MIN_BOUND_REQUESTS, requests))
    without = max(half - seconds, until(MIN_VERDICT_REQUESTS, requests))
    return max(min(bounds, without), until(least, drafts), 0.0)


# Ways to measure the cost of drafting


@dataclass(frozen=True, slots=True)
class CostMeasurement:
    """A way to find out whether speculation pays."""

    name: str
    text: str
    """What to do, and what it gives."""
    takes: str
    """Its price in time."""
    costs: str = "no slowdown"
    """Its price in speed."""
    paste: str = ""
    """Flags or YAML to paste; capital letters are to replace. Empty without one."""
    place: str = ""
    """Where to paste it."""


def _paste(place: SettingsPlace, flags: str, setting: str) -> tuple[str, str]:
    """Return flags, or YAML of the configuration, for a place, and its name; both empty without a text."""
    if place in {"flags", "history"} and flags:
        return flags, "the exporter's flags" if place == "flags" else "this command's flags"
    if place == "chart" and setting:  # the chart has the configuration below ``config``
        return f"config: {{{{{setting}}}}}", "the chart's values"
    return setting, setting and "the exporter's configuration"


def _is_measured(its: WindowEvaluation) -> bool:
    """Return whether the verdict is unclear though a way to find out was used."""
    is_measured = its.cost is not None and its.cost.source in _OF_STEPS
    return is_measured and its.verdict is Verdict.UNCLEAR


def _lacks_baseline(its: WindowEvaluation) -> bool:
    return its.total.decode_steps is not None and its.known.baseline is None and not _is_measured(its)


_OF_STEPS: Final = frozenset({CostSource.EXPERIMENT, CostSource.MEASURED, CostSource.BASELINE})
_WAYS: Final[tuple[tuple[Callable[[WindowEvaluation], object], CostMeasurement, str, str], ...]] = (
    (lambda its: its.cost is None and not its.known.speculation.method, CostMeasurement("method", "Name the method, such as eagle3 or mtp: published costs of such drafters then say what is likely", "a minute"),
        "--speculative.method METHOD", "targets: [{{url: {server}, speculative: {{method: METHOD}}}}]"),
    (lambda its: its.known.assumed.settings_place == "history", CostMeasurement("longer_history", "Report a longer time: it narrows the bounds, and may have hours without speculation", "a minute"), "--since 30d", ""),
    (_is_measured, CostMeasurement("more_traffic", "Let it run: the cost is measured on this server, and about {factor} times as much traffic as so far decides", "that traffic"), "", ""),
    (lambda its: its.known.baseline and its.total.decode_steps is not None and not _is_measured(its), CostMeasurement("baseline_loads", "Let it run: a baseline is known, and a minute of drafts near a load of that time shows the cost", "a minute of such traffic"), "", ""),
    (lambda its: its.known.speculation.schedule.pauses, CostMeasurement("schedule_in_force", "Wait for loads at which its schedule drafts nothing, and for loads near them: the exporter measures both kinds of steps", "ten minutes of such traffic"), "", ""),
    (_lacks_baseline, CostMeasurement("history", "Point the exporter at a Prometheus with data from before speculation was enabled", "a minute"),
        "--baseline.prometheus.url http://PROMETHEUS:9090", "baseline: {{prometheus: {{url: 'http://PROMETHEUS:9090'}}}}"),
    (_lacks_baseline, CostMeasurement("plain_period", "Serve one replica without {speculation} for ten minutes of traffic, then with it: the exporter learns its step times, for all replicas of its deployment{volume}", "two restarts and ten minutes of traffic", "that replica loses the gain of drafting for ten minutes"), "", ""),
    (lambda _: True, CostMeasurement("replica", "Serve one replica without drafts, and compare both in an experiment of the exporter's configuration", "one more server and ten minutes of traffic", "that server has no gain of drafting"),
        "", 'experiments: [{{name: drafts, arms: {{"off": {{match: {{method: "off"}}}}, "on": {{match: {{method: {method}}}}}}}, baseline: "off"}}]'),
    (lambda its: its.counts_verified, CostMeasurement("by_hand", "Measure a decode step at this load with drafts, T1, and without, T0; C is (T1 / T0 - 1) / {tokens}", "two measurements"),
        "--cost.draft-cost-ratio C --cost.running-requests {running:.0f}", "cost: {{draft_cost_ratio: C, running_requests: {running:.0f}}}"),
)  # fmt: skip
"""Ways to measure the cost, cheapest first, with the windows to which each applies, and flags and YAML to paste."""
WAYS: Final = tuple(way.name for _, way, *_ in _WAYS)  # names of the ways, cheapest first


def needs_cost(its: WindowEvaluation, verdict: Verdict) -> bool:
    """Return whether the cost decides: with an unclear verdict, or before one at the known range of costs."""
    found = its.speedup_range if its.likely_share_ratio is not None else None
    if its.is_dead:
        return False
    if verdict is not Verdict.INSUFFICIENT or found is None:
        return verdict is Verdict.UNCLEAR or (verdict is Verdict.POOR and its.has_typical_cost)
    return found.at_highest_cost < its.known.policy.speedup.harmful <= found.at_lowest_cost


def ways_to_know(its: WindowEvaluation) -> tuple[CostMeasurement, ...]:
    """Return the ways to find out whether speculation pays, cheapest first."""
    method, running = its.known.speculation.method, its.drafting_requests
    assumed, place = its.known.assumed, its.known.assumed.settings_place
    numbers = {
        "tokens": f"{its.draft_length_tokens:.2g}" if its.draft_length_tokens else "K",
        "running": max(round(running or 0.0), 1),
        "speculation": "--speculative-config" if assumed.engine_kind in {"", "vllm"} else "speculation",
        "method": method if present_name(method) in METHODS else "METHOD",
        "factor": _more_traffic(its),
        "server": f"'{assumed.server}'" if assumed.server else "URL",
        "volume": ", if a volume keeps `state.file`" if place == "chart" else "",
    }
    rows = ((way, *_paste(place, flags, setting)) for applies, way, flags, setting in _WAYS if applies(its))
    return tuple(
        replace(way, text=way.text.format_map(numbers), paste=paste.format_map(numbers), place=name)
        for way, paste, name in rows
        if place != "history" or way.name in {"method", "longer_history", "by_hand"}  # no way to wait
    )


def _more_traffic(its: WindowEvaluation) -> str:
    """Return by how much more traffic the bounds, which narrow with its root, would exclude 1; at most 100."""
    bounds = its.speedup_range and its.speedup_range.estimate
    if bounds is None or min(bounds[:3]) <= 0:
        return "many"
    half, gap = log(bounds.upper / bounds.lower) / 2, abs(log(bounds.value))
    return f"{ceil((half / gap) ** 2) + 1}" if half < 10 * gap else "100"
