"""Baselines from other contexts: what the exporter says of drafting, compared with the truth.

    python -m benchmarks.contexts [--trials 12] [--seed 1] [--smoke]

Servers of ``benchmarks/truth/deployed.py`` run without speculation first, and then draft with contexts that
are 0.25 to 4 times as long: by cached prompts, by uncached ones, or by answers; at the same load, or in
bursts around it. The exit status is 1 if a goal is missed.
"""

from __future__ import annotations

from math import exp, inf, log
from random import Random
from typing import Final

from benchmarks.load_range import polled
from benchmarks.options import end, parsed, parser
from benchmarks.table import print_table
from benchmarks.truth.deployed import Deployed, deployed
from benchmarks.truth.engine import Engine, Requests
from benchmarks.truth.feed import FedEngine
from benchmarks.truth.sources import Source, reported
from benchmarks.verdict_truth import HEADS, Outcome, Score, row
from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.costs.model_architecture import target_model

RATIOS: Final = (0.25, 0.5, 0.67, 1.0, 1.5, 2.0, 4.0)
"""Contexts while it drafts, over those without."""
KINDS: Final = ("cached", "uncached", "answers")
"""What makes contexts longer."""
LOADS: Final = ("same", "same", "bursts")
PLAIN_SECONDS: Final = 300
DRAFTING_SECONDS: Final = 420
REPLICA_ERROR: Final = 0.015
"""Standard deviation of step times between two starts. Assumed."""
MAX_CONTEXT: Final = 8000


def trial(ratio: float, kind: str, load: str, random: Random) -> Outcome:
    """Return the evaluation of a server with a baseline, and its truth."""
    its = deployed(random)
    while its.running < 2:
        its = deployed(random)
    answer, context = exp(random.uniform(log(80), log(400))), min(its.server.context, MAX_CONTEXT)
    uncached = context / 4 if kind == "uncached" else 120.0
    fed = FedEngine(
        Assumptions(
            speculation=Speculation(
                method=its.method, tokens=its.server.tokens, target=target_model(its.name)
            )
        )
    )

    def engine(tokens: int, times: float, load: str, now: float) -> Engine:
        of_answers = kind == "answers"
        requests = Requests(
            answer=(2 * context * (times - 1) + answer if of_answers and times > 1 else answer),
            cached=context if of_answers and times > 1 else context * times,
            uncached=uncached * times if kind == "uncached" else uncached,
            acceptance=its.acceptance,
            load=lambda moment: _load(its, load, moment),
        )
        factor = random.gauss(1, REPLICA_ERROR)
        return Engine(random, its.server, [(inf, tokens)], requests, now=now, factor=factor)

    plain = engine(0, 1.0, "same", 0.0).pages([second + 1.0 for second in range(PLAIN_SECONDS)])
    fed.poll(plain, speculates=False)
    drafting = engine(its.server.tokens, ratio, load, float(PLAIN_SECONDS))
    truth = polled(fed, drafting, DRAFTING_SECONDS, random, process=PLAIN_SECONDS)
    return Outcome(truth, reported(fed.snapshot().evaluation))


def _load(its: Deployed, kind: str, moment: float) -> float:
    if kind == "bursts":
        return its.running * (1.5 if moment % 20 < 6 else 0.5)
    return its.running


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--trials", type=int, default=12, help="servers of a ratio")
    options.add_argument("--seed", type=int, default=1)
    arguments = parsed(options, trials=1)
    scores = []
    for ratio in RATIOS:
        outcomes = []
        for place in range(arguments.trials):
            random = Random(f"contexts {arguments.seed} {ratio} {place}")
            kind, load = KINDS[place % len(KINDS)], LOADS[place // len(KINDS) % len(LOADS)]
            outcomes.append(trial(ratio, kind, load, random))
        source = Source(f"{ratio:g} times the contexts", lambda _: None, ("baseline",))
        known = [each for each in outcomes if each.reported.source in source.labels]
        scores.append(Score(source, tuple(known), len(outcomes) - len(known)))
    print_table(HEADS, map(row, scores))
    end(arguments, [f"{each.source.name}: {goal}" for each in scores for goal in each.missed()])


if __name__ == "__main__":
    main()
