"""Budgets of lines of the packages and of helpers of the tests, checked by ``make lint``: ``python -m tests.budgets``.

A package that needs more lines raises its budget in the same commit, and a comment says why.
Lines include blank lines and docstrings, as ``wc -l`` counts them.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "exporter" / "spec_decode_exporter"
BUDGETS = {
    "core": 900,  # internal errors have no recovery (1,001 before); one parser of URLs and the bounds of numbers from outside
    "config": 1748,  # one file of settings, sorting instead of refusing (1,836 before); schedules, memory of the drafter
    "scrape": 2479,  # one rule for intervals by cost in place of permits that rest (2,626 before); streams of asyncio would double the CPU of a request; bounds and events of polls stay; why a page has no engine, and what to do about a failed poll
    "discovery": 1138,  # limits of every list, precedence of labels, command lines of vLLM; 1,540 was for a watch of pods
    "window": 885,  # drafted tokens by position, counters of ended requests, K by a gauge; sums of engines side by side, narrow columns, and products for mean loads
    "figures": 996,  # one way to read columns (1,045 before); 850 was for traffic without prompts and bursts: prefills that share steps, loads that polls do not see, contexts
    "costs": 1896,  # one package with what is learned (698 + 1,339 before); published rows instead of a model; steps of a poll are sums at once, names say no sizes of targets
    "analysis": 2175,  # no verdict for each band of load (2,280 before); pure functions: counters that a page lacks are live state, in monitor; ways to know, return on memory, fine steps of bands
    "drops": 796,  # one detector; falls over hours and regular ones are alert rules (1,125 before)
    "experiments": 700,  # the load of a token, what a queue hides, and differences that fixed arrivals amplify (757 before)
    "findings": 634,  # what cannot be acted on is gone (680 before)
    "requests": 1345,  # slots of names without requests become free, no events of what metrics and alerts show (1,450 before); one rule for kinds that differ, one receiver for each setting
    "monitor": 2150,  # one module for the state and its file, what targets share with them, comparisons with the fleet (2,400 before); summaries with the fleet, one function for snapshots, nothing set from outside (2,269 before)
    "history": 1848,  # one function reads a target, labels instead of names (1,910 before); one record of an engine, one loop for slices; Rust front ends, exact names, baselines of groups
    "metrics": 894,  # a row for each figure, and lines that are written with the evaluation (905 before)
    "views": 1897,  # one module of sentences (2,090 before), one table of words, no second API of histories, no sums of groups: a row and a description for each JSON field: 1,000; sentences on verdict, setting and fleet: 850; formats of templates
    "plan": 976,  # two modules: models, and plans of both kinds (1,037 before); and its template of 101: models and heads in one module, warnings with the report
    "reports": 1629,  # what only a command uses is in cli (1,897 before); reports are written as every command writes, templates say what needs no function
    "web": 2594,  # files and the limit of bodies by aiohttp, one module for API and OpenAPI, one for the fleet of the page (2,802 before); and the data sources of its handlers (167, from app), without a description of them; OpenAPI and documents stay; accept loop, limits and TLS with a bound for each attack, a sentence for each mistake
    "app": 348,  # its state serves handlers, so web has it (540 before)
    "cli": 1830,  # one function for speculation, rows for --for and --simulate (1,901 before); the past of the demo, saved comparisons, recordings, plans by a model's name
    "simulator": 1143,  # no merged pages, no gliding acceptance (1,248 before); restarts, a KV cache and kinds of requests
    "vllm_middleware": 430,  # 350 was the plan: credentials, TLS, Unix sockets and settings are a third of it
}
HELPERS = 0.6  # functions, methods and fixtures of the tests for each test; 0.95 before


def lines(package: Path) -> int:
    """Return the lines of all modules of a package."""
    return sum(path.read_bytes().count(b"\n") for path in package.rglob("*.py"))


def helpers_per_test(folder: Path) -> float:
    """Return the functions that are no tests, wherever they are defined, over those that are."""
    nodes = (node for path in folder.rglob("*.py") for node in ast.walk(ast.parse(path.read_bytes())))
    names = [node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    tests = sum(name.startswith("test_") for name in names)
    return (len(names) - tests) / tests


def problems(package: Path = PACKAGE, tests: Path = TESTS) -> Iterator[str]:
    """Yield packages without a budget, budgets without a package, and what is above its budget."""
    sizes = {path.parent.name: lines(path.parent) for path in package.glob("*/__init__.py")}
    for name in sorted(sizes.keys() ^ BUDGETS.keys()):
        yield f"{name}: {'no budget' if name in sizes else 'no such package'}"
    for name, size in sizes.items():
        if size > BUDGETS.get(name, size):
            yield f"{name}: {size} lines; the budget is {BUDGETS[name]}"
    if (helpers := helpers_per_test(tests)) > HELPERS:
        yield f"tests: {helpers:.2f} helpers a test; the budget is {HELPERS}"


if __name__ == "__main__":
    sys.exit("\n".join(problems()) or 0)
