"""How often one population of requests is taken for two, and two for one.

    python -m benchmarks.modes [--seed 1] [--full]

Each request has an acceptance of its own, drawn from a population, and its drafts are drawn one by one: a
draft token is accepted if it and those before it survive. The exporter's own test looks at the requests.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from exporter.requests.modes import Accepted, modes
from exporter.requests.telling import LEAST_TOKENS

Array = np.ndarray[Any, np.dtype[Any]]
Random = np.random.Generator

BETAS = ((1, 1), (1.2, 1.2), (2, 2), (5, 2), (4, 1), (20, 5), (30, 3), (60, 20), (2, 8), (1, 4))
DRAFTS: dict[str, Callable[[Random, int], Array]] = {
    "5 to 500": lambda random, number: random.integers(5, 501, number),
    "5 to 500, mostly few": lambda random, number: np.exp(
        random.uniform(np.log(5), np.log(501), number)
    ).astype(int),
    "15": lambda _, number: np.full(number, 15),
    "5 or 500": lambda random, number: np.where(random.random(number) < 0.5, 5, 500),
    "10 or 300": lambda random, number: np.where(random.random(number) < 0.5, 10, 300),
}
TOKENS = (1, 4, 8)
NUMBERS = (40, 60, 100, 500, 5000)
LENGTHS = (60, 120, 300)
SPREADS = (0.0, 0.03, 0.05, 0.1)


@cache
def shares(tokens: int) -> tuple[Array, Array]:
    """Return the acceptance of single tokens, and what share of ``tokens`` a draft it makes accepted."""
    single = np.linspace(0, 1, 4001)
    return single, sum(single**position for position in range(1, tokens + 1)) / tokens


def draw(random: Random, share: Array, drafts: Array, tokens: int) -> list[Accepted]:
    """Return what is accepted of requests with such shares, as far as they say enough to be looked at."""
    known, accepted = shares(tokens)
    single = np.interp(share, accepted, known)[:, None]
    lengths = np.arange(tokens)
    chances = np.concatenate([(1 - single) * single**lengths, single**tokens], axis=1)
    chances /= chances.sum(axis=1, keepdims=True)
    total = random.multinomial(drafts, chances) @ np.arange(tokens + 1)
    telling = drafts + total >= LEAST_TOKENS
    return list(zip((total / drafts / tokens)[telling].tolist(), drafts[telling].tolist(), strict=True))


def one(random: Random, beta: tuple[float, float], drafts: str, tokens: int, number: int) -> bool | None:
    """Return whether one population is taken for two; None where too few requests say enough."""
    requests = draw(random, random.beta(*beta, number), DRAFTS[drafts](random, number), tokens)
    return None if len(requests) < 30 else modes(requests) is not None


def two(random: Random, spread: float, length: int, number: int) -> bool:
    """Return whether 60 % of requests at 0.82 and 40 % at 0.38 are found to be two, K = 4."""
    center = np.where(random.random(number) < 0.6, 0.82, 0.38)
    share = np.clip(center + random.normal(0, spread, number), 0.02, 0.98)
    return modes(draw(random, share, np.ceil(length / (1 + 4 * share)).astype(int), 4)) is not None


def tell_false_alarms(random: Random, times: int) -> None:
    print("\nOne population taken for two, in percent of those that could be judged\n")
    print("| requests | " + " | ".join(f"{name} drafts" for name in DRAFTS) + " | the worst population |")
    print("|--:|" + "--:|" * (len(DRAFTS) + 1), flush=True)
    worst = ""
    for number in NUMBERS:
        cells, by_beta = [], {beta: [0, 0] for beta in BETAS}
        for drafts in DRAFTS:
            alarms = judged = 0
            for beta, tokens in populations():
                for _ in range(times):
                    found = one(random, beta, drafts, tokens, number)
                    if found is not None:
                        judged, alarms = judged + 1, alarms + found
                        by_beta[beta][0] += found
                        by_beta[beta][1] += 1
            cells.append(f"{100 * alarms / judged:.2f} of {judged}" if judged else "-")
        worst, (alarms, judged) = max(((str(beta), counts) for beta, counts in by_beta.items()), key=_rate)
        print(
            f"| {number} | " + " | ".join(cells) + f" | Beta{worst}: {100 * alarms / judged:.2f} |",
            flush=True,
        )


def _rate(population: tuple[str, list[int]]) -> float:
    alarms, judged = population[1]
    return alarms / judged if judged else 0.0


def populations() -> Iterator[tuple[tuple[float, float], int]]:
    """Return every shape with every number of draft tokens."""
    return ((beta, tokens) for beta in BETAS for tokens in TOKENS)


def tell_found(random: Random, times: int) -> None:
    print(f"\n60 % of requests at 0.82 and 40 % at 0.38 found to be two, in percent of {times}\n")
    print(
        "| tokens a request | each differs by | "
        + " | ".join(f"{n} requests" for n in (30, 50, 75, 100, 200))
        + " |"
    )
    print("|--:|--:|" + "--:|" * 5, flush=True)
    for length in LENGTHS:
        for spread in SPREADS:
            found = [
                100 * sum(two(random, spread, length, number) for _ in range(times)) / times
                for number in (30, 50, 75, 100, 200)
            ]
            print(
                f"| {length} | {spread} | " + " | ".join(f"{share:.0f}" for share in found) + " |", flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="six times as many, some minutes")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    times = 60 if arguments.full else 10
    tell_false_alarms(np.random.default_rng([arguments.seed, 1]), times)
    tell_found(np.random.default_rng([arguments.seed, 2]), 20 * times)


if __name__ == "__main__":
    main()
