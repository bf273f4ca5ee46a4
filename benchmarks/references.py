"""Coverage of the interval of a change, and outcomes of comparisons with known changes.

    python -m benchmarks.references [--pairs 200] [--seed 1] [--smoke]

Two windows of five minutes are drawn as in ``benchmarks.coverage``, the later one of a drafter that
is worse by a known amount; the exporter's own code compares them, with its threshold of 5 points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.coverage import truth
from benchmarks.options import parsed, parser
from benchmarks.simulated_requests import MIXES, Load, Mix, trace, window
from benchmarks.table import percent, table
from spec_decode_exporter.analysis.comparison.comparison import Outcome, compare
from spec_decode_exporter.analysis.comparison.measure import measure
from spec_decode_exporter.analysis.comparison.measurement import Measurement

SECONDS = 300
THRESHOLD = 0.05
TOKENS = (50, 500)
LOADS = (Load(TOKENS, "closed", 4), Load(TOKENS, "open", 16), Load(TOKENS, "closed", 64))
WORSE = (0.0, 0.03, 0.06, 0.09, 0.15)
"""Of the first position's acceptance."""


def measured(random: np.random.Generator, mix: Mix, load: Load, number: int) -> Iterator[Measurement]:
    """Measure ``number`` consecutive windows."""
    totals = trace(random, mix, load, number * SECONDS)
    for begin in range(0, number * SECONDS, SECONDS):
        yield measure(window(totals, begin, SECONDS), {})


def row(random: np.random.Generator, mix: Mix, load: Load, worse: float, pairs: int) -> list[str]:
    """Compare pairs of windows, and say what came of them."""
    other = replace(mix, acceptance=mix.acceptance - worse)
    true = truth(random, other, TOKENS)["rate"] - truth(random, mix, TOKENS)["rate"]
    before, after = measured(random, mix, load, pairs), measured(random, other, load, pairs)
    found = [compare(one, two, THRESHOLD) for one, two in zip(before, after, strict=True)]
    bounded = [each.acceptance for each in found if each.acceptance and each.acceptance.lower is not None]
    holds = sum((each.lower or 0.0) <= true <= (each.upper or 0.0) for each in bounded)
    outcomes = Counter(each.outcome for each in found)
    fine = sum(outcomes[each] for each in (Outcome.BETTER, Outcome.SAME, Outcome.LOWER))
    width = np.mean([((each.upper or 0.0) - (each.lower or 0.0)) / 2 for each in bounded]) if bounded else 0.0
    return [
        mix.name,
        f"{load.arrivals}, {load.concurrent}",
        f"{-100 * true:.1f}",
        f"{100 * width:.1f}",
        percent(holds, len(bounded) or 1),
        percent(outcomes[Outcome.FELL], pairs),
        percent(fine, pairs),
        percent(outcomes[Outcome.UNCERTAIN], pairs),
    ]


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--pairs", type=int, default=200, help="in each row")
    options.add_argument("--seed", type=int, default=1)
    arguments = parsed(options, pairs=1)
    random = np.random.default_rng(arguments.seed)
    chosen = [mix for mix in MIXES if mix.name in ("EAGLE", "draft model")]
    rows = [
        row(random, mix, load, worse, arguments.pairs)
        for mix in chosen
        for load in (LOADS[:1] if arguments.smoke else LOADS)
        for worse in (WORSE[:1] if arguments.smoke else WORSE)
    ]
    heads = ["speculation", "arrivals, running", "true fall", "half-width", "interval holds"]
    table([*heads, "exit 2", "exit 0", "exit 3"], iter(rows))


if __name__ == "__main__":
    main()
