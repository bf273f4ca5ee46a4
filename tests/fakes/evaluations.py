"""Windows of a busy engine, and evaluations of them."""

from dataclasses import replace

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.knowledge import Assumptions, Knowledge
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Advice
from spec_decode_exporter.costs.cost import CostAtLoad, CostByLoad, CostSource, CostSources, fixed_tokens
from spec_decode_exporter.costs.methods import Interval, kind_of
from spec_decode_exporter.window.engine_windows import NANO
from tests.fakes.windows import window

GOOD = (0.80, 0.65, 0.50, 0.35)
POOR = (0.40, 0.15, 0.05, 0.01)


def busy_window(
    survival=GOOD, *, length=300.0, seconds=None, running=4.0, drafts=100, coverage=1.0, first_token=None
):
    """A window of equal increments, one a second; every step drafts K tokens unless coverage is lower.

    Two requests begin a second; ``first_token`` is the time of each to its first token, in seconds.
    """
    seconds = length if seconds is None else seconds
    accepted = [round(share * drafts) for share in survival]
    steps = round(drafts / coverage)
    one = {
        "drafts": drafts,
        "draft_tokens": drafts * len(survival),
        "accepted_tokens": sum(accepted),
        "decode_steps": steps,
        "generation_tokens": steps + sum(accepted) + 2,
        "first_tokens": 2,
    }
    if first_token is not None:
        one["first_token_nanoseconds"] = round(2 * first_token * NANO)
        one["decode_nanoseconds"] = round((running - 2 * first_token) * NANO)
    polls, gauges = int(seconds), (running, 0.0, 0.2)
    whole = {name: value * polls for name, value in one.items()}
    return window(
        accepted=whole.pop("accepted_tokens"),
        positions=[count * polls for count in accepted],
        length=length,
        seconds=float(seconds),
        gauges=gauges,
        increments=[{**one, "positions": accepted, "gauges": gauges}] * polls,
        **whole,
    )


def curve(*points, margin=0.02, source=CostSource.MEASURED, method=""):
    """A measured cost, of pairs of load and c."""
    known = (CostAtLoad(load, Interval((1 - margin) * c, c, (1 + margin) * c)) for load, c in points)
    return CostByLoad(tuple(known), source, step_tokens=fixed_tokens(kind_of(method), 1.0))


def knowledge(*measured, method="", cost=None, architecture=None, schedule=None, **more):
    """Knowledge of an engine: measured costs, and those of the configuration; ``more`` are its other fields."""
    named = {} if schedule is None else {"schedule": schedule}
    facts = ("engine_kind", "server", "data_parallel", "settings_place")
    assumed = Assumptions(**{name: more.pop(name) for name in facts if name in more})
    speculation = Speculation(method, "configured" if method else "", architecture=architecture, **named)
    return Knowledge(
        speculation,
        CostSources(cost, measured, method, architecture),
        **{"has_drafted": True, "assumed": assumed, **more},
    )


def evaluation(known, survival=GOOD, **more):
    """An evaluation of windows of 30 and 300 seconds."""
    shorter = {**more, "length": 30.0, "seconds": min(30, more.get("seconds") or 30)}
    return Evaluation((busy_window(survival, **shorter), busy_window(survival, **more)), known)


def advised(snapshot, setting, speculation, action, **known):
    """A snapshot with another setting, speculation and action; ``known`` are other fields of its knowledge."""
    its = snapshot.evaluation
    changed = Evaluation(
        [each.window for each in its.windows],
        replace(its.known, speculation=speculation, **known),
        its.latencies,
        lambda each: (each.computed_decision._replace(advice=Advice(action)), setting),
    )
    return replace(snapshot, evaluation=changed)
