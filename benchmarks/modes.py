"""Error rates of the tests for mixed workloads and for requests below break-even.

    python -m benchmarks.modes [--seed 1] [--full] [--smoke]

Each request has an acceptance of its own, drawn from a population, and its drafts are drawn one by one: a
draft token is accepted if it and those before it survive. The exporter's own tests evaluate the requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from benchmarks.options import parsed, parser
from spec_decode_exporter.requests.below_break_even import (
    MIN_TOKENS,
    InformativeRequest,
    share_below_break_even,
)
from spec_decode_exporter.requests.mixture import Accepted, modes
from spec_decode_exporter.requests.model_findings import MIN_HIDDEN_SHARE

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Random: TypeAlias = np.random.Generator

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
Draw = Callable[[Random, Array, Array, int], Array]
Population = Callable[[Random, int], Array]
TOKENS = (1, 4, 8)
NUMBERS = (40, 60, 100, 500, 5000)
LENGTHS = (60, 120, 300)
COSTS = ((0.1, 0.0), (0.2, 0.05), (0.4, 0.1))
"""c and c0, of four tokens a draft."""
SPEEDUPS = (1.02, 1.05, 1.10, 1.20)
SPREADS = (0.0, 0.03, 0.05, 0.1)


@cache
def shares(tokens: int) -> tuple[Array, Array]:
    """Return the acceptance of single tokens, and what share of ``tokens`` a draft it makes accepted."""
    single = np.linspace(0, 1, 4001)
    return single, sum(single**position for position in range(1, tokens + 1)) / tokens


def accepted_tokens(random: Random, share: Array, drafts: Array, tokens: int) -> Array:
    """Return how many tokens of each request are accepted, of which each survives by itself."""
    known, accepted = shares(tokens)
    single = np.interp(share, accepted, known)[:, None]
    lengths = np.arange(tokens)
    chances = np.concatenate([(1 - single) * single**lengths, single**tokens], axis=1)
    chances /= chances.sum(axis=1, keepdims=True)
    total: Array = random.multinomial(drafts, chances) @ np.arange(tokens + 1)
    return total


def whole_drafts(random: Random, share: Array, drafts: Array, tokens: int) -> Array:
    """Return the same where a draft is accepted whole or not at all: nothing scatters more."""
    total: Array = tokens * random.binomial(drafts, share)
    return total


def draw(random: Random, share: Array, drafts: Array, tokens: int) -> list[Accepted]:
    """Return what is accepted of requests with such shares, as far as they say enough to be looked at."""
    total = accepted_tokens(random, share, drafts, tokens)
    telling = drafts + total >= MIN_TOKENS
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


def losers(random: Random, cost: tuple[float, float], share: Array, length: int, drawn: Draw) -> bool | None:
    """Return whether requests of four tokens a draft are said to hide some that lose; None where all lose."""
    needed = cost[1] + 4 * cost[0]
    drafts = np.maximum(np.ceil(length / (1 + 4 * share)), 1).astype(int)
    total = drawn(random, share, drafts, 4)
    if (drafts + total).sum() <= ((1 + needed) * drafts).sum():
        return None
    requests = [
        InformativeRequest(4, own, 4 * own, accepted, needed)
        for own, accepted in zip(drafts.tolist(), total.tolist(), strict=True)
        if own + accepted >= MIN_TOKENS
    ]
    return share_below_break_even(requests) > MIN_HIDDEN_SHARE


def tell_losers(random: Random, times: int) -> None:
    heads = " | ".join(f"{length} tokens" for length in ALIKE)
    print("\nRequests all alike of which more than a tenth is said to lose, in percent\n")
    print(f"| speed-up of every request | drafts | requests | {heads} |")
    print("|--:|---|--:|" + "--:|" * len(ALIKE), flush=True)
    for speedup, (name, drawn), number in product(SPEEDUPS, DRAWN.items(), MANY):
        found = [
            _percent(each for _ in range(times) for each in _alike(random, speedup, number, length, drawn))
            for length in ALIKE
        ]
        cells = " | ".join(f"{share:.1f}" for share in found)
        print(f"| {speedup:.2f} | {name} | {number} | {cells} |", flush=True)
    print(
        "\nThe share that loses, and how often more than a tenth is said to, in percent: c = 0.4, c0 = 0.1\n"
    )
    print(f"| population | lose | requests | {heads} |")
    print("|---|--:|--:|" + "--:|" * len(ALIKE), flush=True)
    for (name, population), number in product(POPULATIONS.items(), MANY):
        lose = 100 * float(np.mean(population(random, 100_000) < NEEDED / 4))
        found = [
            _percent(
                losers(random, COSTS[2], population(random, number), length, accepted_tokens)
                for _ in range(times)
            )
            for length in ALIKE
        ]
        cells = " | ".join(f"{share:.0f}" for share in found)
        print(f"| {name} | {lose:.0f} | {number} | {cells} |", flush=True)


def _alike(random: Random, speedup: float, number: int, length: int, drawn: Draw) -> list[bool | None]:
    """Return for each cost whether it is said of requests that are all as fast."""
    found = []
    for cost in COSTS:
        share = np.full(number, (speedup * (1 + cost[1] + 4 * cost[0]) - 1) / 4)
        found.append(losers(random, cost, share, length, drawn))
    return found


def _percent(found: Iterable[bool | None]) -> float:
    """Return how many are true of those that are not None."""
    evaluated = [each for each in found if each is not None]
    return 100 * sum(evaluated) / max(len(evaluated), 1)


def _normal(random: Random, speedup: float, spread: float, number: int) -> Array:
    """Return shares of requests whose speed-ups are normally distributed."""
    own: Array = np.clip((random.normal(speedup, spread, number) * (1 + NEEDED) - 1) / 4, 0.005, 0.995)
    return own


def tell_false_alarms(random: Random, times: int) -> None:
    print("\nOne population taken for two, in percent of those that could be tested\n")
    print("| requests | " + " | ".join(f"{name} drafts" for name in DRAFTS) + " | the worst population |")
    print("|--:|" + "--:|" * (len(DRAFTS) + 1), flush=True)
    worst = ""
    for number in NUMBERS:
        cells, by_beta = [], {beta: [0, 0] for beta in BETAS}
        for drafts in DRAFTS:
            alarms = evaluated = 0
            for beta, tokens in populations():
                for _ in range(times):
                    found = one(random, beta, drafts, tokens, number)
                    if found is not None:
                        evaluated, alarms = evaluated + 1, alarms + found
                        by_beta[beta][0] += found
                        by_beta[beta][1] += 1
            cells.append(f"{100 * alarms / evaluated:.2f} of {evaluated}" if evaluated else "-")
        worst, (alarms, evaluated) = max(((str(beta), counts) for beta, counts in by_beta.items()), key=_rate)
        print(
            f"| {number} | " + " | ".join(cells) + f" | Beta{worst}: {100 * alarms / evaluated:.2f} |",
            flush=True,
        )


def _rate(population: tuple[str, list[int]]) -> float:
    alarms, evaluated = population[1]
    return alarms / evaluated if evaluated else 0.0


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


DRAWN: dict[str, Draw] = {"token by token": accepted_tokens, "whole": whole_drafts}
NEEDED = COSTS[2][1] + 4 * COSTS[2][0]
ALIKE = (40, *LENGTHS)
MANY = (40, 100, 1000)
POPULATIONS: dict[str, Population] = {
    "60 % at 0.82, 40 % at 0.38": lambda random, number: np.where(random.random(number) < 0.6, 0.82, 0.38),
    "85 % at 0.82, 15 % at 0.38": lambda random, number: np.where(random.random(number) < 0.85, 0.82, 0.38),
    "95 % at 0.82, 5 % at 0.38": lambda random, number: np.where(random.random(number) < 0.95, 0.82, 0.38),
    "speed-up 1.1 ± 0.05": lambda random, number: _normal(random, 1.1, 0.05, number),
    "speed-up 1.1 ± 0.1": lambda random, number: _normal(random, 1.1, 0.1, number),
    "speed-up 1.1 ± 0.2": lambda random, number: _normal(random, 1.1, 0.2, number),
    "speed-up 1.2 ± 0.1": lambda random, number: _normal(random, 1.2, 0.1, number),
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--full", action="store_true", help="six times as many, some minutes")
    options.add_argument("--seed", type=int, default=1)
    arguments = parsed(options)
    times = 60 if arguments.full else 10
    times = 1 if arguments.smoke else times
    tell_false_alarms(np.random.default_rng([arguments.seed, 1]), times)
    tell_found(np.random.default_rng([arguments.seed, 2]), 20 * times)
    tell_losers(np.random.default_rng([arguments.seed, 3]), 5 * times)


if __name__ == "__main__":
    main()
