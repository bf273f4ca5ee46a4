"""Parsers of pages, configurations and requests, by the name of their corpus."""

from __future__ import annotations

from importlib import import_module

from tests.robustness.fuzz.harness import Harness

TARGETS = {
    "page": "scanner.PAGE",
    "reader": "scanner.READER",
    "config": "files.CONFIG",
    "web-config": "files.WEB_CONFIG",
    "query": "requests.QUERY",
    "headers": "requests.HEADERS",
    "sent-requests": "wire.SENT",
}


def harness(name: str) -> Harness:
    """Import a harness and its parser: only after coverage is on."""
    module, _, variable = TARGETS[name].partition(".")
    found: Harness = getattr(import_module(f"tests.robustness.fuzz.{module}"), variable)
    return found
