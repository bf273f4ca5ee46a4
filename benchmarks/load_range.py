"""Limits by the engine's own range of loads, and by typical costs, compared with the truth of servers.

    python -m benchmarks.load_range [--servers 2000] [--traffic 24] [--seed 1] [--smoke]

First servers of ``benchmarks/truth/deployed.py`` whose step times are known exactly at all loads up to their
own; then the traffic of some of them, whose counters the exporter's own code gets once a second. The exit
status is 1 if a goal is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import exp, inf, log, pi, sin
from random import Random
from statistics import mean
from typing import Final, NamedTuple

from benchmarks.options import end, parsed, parser
from benchmarks.table import percent, print_table
from benchmarks.truth.deployed import Deployed, deployed
from benchmarks.truth.engine import Engine, Requests
from benchmarks.truth.feed import LENGTHS, FedEngine
from benchmarks.truth.traffic import NANO
from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.costs.cost import CostModel
from spec_decode_exporter.costs.load_range import SeenSteps, largest_drafter, plain_seconds
from spec_decode_exporter.costs.model_architecture import UNKNOWN_TARGET, target_model
from spec_decode_exporter.figures.window_figures import Work

SLOWER: Final = 0.97
MAX_FALSE, MIN_ABOVE = 0.01, 0.99
LEAST_DECIDED: Final = {"both, method known": 0.30, "both, model known": 0.50}
"""Least share of the servers that pay of which the lower bound says so."""
STEPS: Final = 1_000_000
"""Of an exact server: enough for whole numbers of tokens."""
SECONDS: Final = 900
LOADS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


class Bound(NamedTuple):
    """Lower bound of the speed-up of a server; None if unknown."""

    truth: float
    lower: float | None


def exact(its: Deployed) -> dict[str, Bound]:
    """Return the lower bounds of a server whose step times are known, by what is known of it."""
    tokens, truth = its.server.tokens, its.truth
    work = Work(round(STEPS * its.tokens_per_step), STEPS, STEPS, STEPS * tokens)
    found: dict[str, Bound] = {}
    for name, target in (("method", UNKNOWN_TARGET), ("model", target_model(its.name))):
        model = CostModel(method=its.method, target=target)
        cost = model.at(its.running, tokens, its.server.context)
        drafter, loads = largest_drafter(model), [each for each in LOADS if each <= its.running]
        assert cost
        assert drafter
        steps = [_seen(its, each) for each in loads]
        plain = plain_seconds(steps, drafter, its.running, its.running * its.server.context)
        kappa = its.step_seconds(its.running) / plain
        own = its.tokens_per_step / kappa if its.running > tokens else None
        both = cost.limited(work, kappa)
        found |= {
            f"typical, {name} known": Bound(truth, work.speedup(cost.high)),
            f"own loads, {name} known": Bound(truth, own),
            f"both, {name} known": Bound(truth, work.speedup(both.high)),
        }
    return found


def _seen(its: Deployed, load: int) -> SeenSteps:
    tokens = its.server.tokens
    return SeenSteps(its.step_seconds(load), load * (1 + tokens), load * its.server.context, 1.0, tokens)


class Outcome(NamedTuple):
    """Speed-up of a server under traffic, and its lower bounds."""

    truth: float
    lower: float | None
    """By its own loads."""
    reported: float | None


def under_traffic(its: Deployed, random: Random) -> Outcome:
    """Return the evaluation of a server whose load varies."""
    requests = Requests(
        answer=exp(random.uniform(log(60), log(500))),
        cached=its.server.context,
        uncached=random.uniform(60, 240),
        acceptance=its.acceptance,
        load=_waves(2.0 * its.running, random),
    )
    engine = Engine(random, its.server, [(inf, its.server.tokens)], requests, now=0.0)
    speculation = Speculation(method=its.method, tokens=its.server.tokens, target=target_model(its.name))
    fed = FedEngine(Assumptions(speculation=speculation))
    truth = polled(fed, engine, SECONDS, random)
    window = fed.snapshot().evaluation.longest
    largest, tokens, bounds = (
        window.largest_step_ratio,
        window.effective_tokens_per_step,
        window.speedup_bounds,
    )
    lower = tokens / largest if largest and tokens else None
    return Outcome(truth, lower, None if bounds is None else bounds.lower)


def polled(fed: FedEngine, engine: Engine, seconds: int, random: Random, process: int = 0) -> float:
    """Poll a server for ``seconds``; return the true speed-up in the longest window at their end.

    Another ``process`` is a restart.
    """
    begin, known = int(seconds - LENGTHS[-1]), [[0.0] * 5]
    moments = [engine.now + each + random.uniform(0.9, 1.1) for each in range(seconds)]
    for second, page in enumerate(engine.pages(moments), 1):
        fed.poll([page], process=process)
        if second in {begin, seconds}:
            spent = [sum(column) for column in zip(*engine.truth.values(), strict=True)][:3]
            counts = engine.counts
            tokens = counts["generation_tokens"] - counts["first_tokens"]
            known.append([*spent, counts["decode_nanoseconds"] / NANO, tokens])
    pairs = zip(known[-1], known[-2], strict=True)
    steps, plain, drafting, decode, tokens = (new - old for new, old in pairs)
    prompts = max(0.0, decode - drafting)  # they take as long without drafts
    return (tokens / steps * plain + prompts) / (drafting + prompts)


def _waves(most: float, random: Random) -> Callable[[float], float]:
    """Return a load over time: slow waves, or bursts of a job, from a low load up to ``most``."""
    least, period = max(1.0, most / 2 ** random.uniform(1, 4)), random.uniform(60, 600)
    begin, job = random.uniform(0, period), random.uniform(2, 20)
    if random.random() < 0.5:
        return lambda now: most if (now + begin) % (period / 4) < job else least
    return lambda now: least * (most / least) ** ((1 + sin(2 * pi * (now + begin) / period)) / 2)


def row(name: str, found: Sequence[Bound]) -> list[str]:
    """Return the shares of one kind of knowledge, and the goals that it misses."""
    known = [each for each in found if each.lower is not None]
    pays, loses = ([its for its in found if its.truth > 1], [its for its in found if its.truth < SLOWER])
    decided, false = (mean([(its.lower or 0) > 1 for its in part] or [0]) for part in (pays, loses))
    above = mean([its.truth >= (its.lower or 0) for its in known] or [1])
    least = LEAST_DECIDED.get(name, 0.0)
    is_missed = {
        "decided": decided < least,
        "false pays": false > MAX_FALSE,
        "truth above": above < MIN_ABOVE and name.startswith("own"),
    }
    missed = ", ".join(goal for goal, is_so in is_missed.items() if is_so) or "none"
    return [name, *map(percent, (len(known) / len(found), decided, false, above)), missed]


def traffic_rows(found: Sequence[Outcome]) -> Iterator[list[str]]:
    """Yield the shares of servers under traffic: by their own loads alone, and as the exporter reports."""
    bounds = [Bound(its.truth, its.lower) for its in found]
    yield row("own loads, traffic", bounds)
    yield row("reported, traffic", [Bound(its.truth, its.reported) for its in found])


HEADS: Final = ("lower bound by", "known", "decided", "false pays", "truth above", "missed")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--servers", type=int, default=2000)
    options.add_argument("--traffic", type=int, default=40, help="servers under traffic")
    options.add_argument("--seed", type=int, default=1)
    arguments = parsed(options, servers=60, traffic=1)
    random = Random(f"load range {arguments.seed}")
    servers = [deployed(random) for _ in range(arguments.servers)]
    bounds = [exact(each) for each in servers]
    rows = [row(name, [each[name] for each in bounds]) for name in bounds[0]]
    print(f"{len(servers)} servers; decided in % of those that pay, false in % of those that are slower.\n")
    busy = [its for its in servers if its.running > its.server.tokens][: arguments.traffic]
    rows += traffic_rows([under_traffic(its, random) for its in busy])
    print_table(HEADS, rows)
    end(arguments, [f"{each[0]}: {each[-1]}" for each in rows if each[-1] != "none"])


if __name__ == "__main__":
    main()
