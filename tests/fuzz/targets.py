"""Table of all parsers of untrusted input, by the name of their corpus."""

from __future__ import annotations

from importlib import import_module

from tests.fuzz.harness import Harness

TARGETS = {
    "page": "scanner.PAGE",
    "reader": "scanner.READER",
    "config": "files.CONFIG",
    "web-config": "files.WEB_CONFIG",
    "targets-yaml": "files.YAML_TARGETS",
    "targets-json": "files.JSON_TARGETS",
    "pods": "servers.PODS",
    "arguments": "servers.ARGUMENTS",
    "server-info": "servers.SERVER_INFO",
    "state": "sealed.STATE",
    "reference": "sealed.REFERENCE",
    "bench": "bench.BENCH",
    "query": "requests.QUERY",
    "headers": "requests.HEADERS",
    "sent-requests": "wire.SENT",
    "history": "history.SAMPLES",
    "recording": "history.RECORDING",
}


def harness(name: str) -> Harness:
    """Import a harness and its parser: only after coverage is on."""
    module, _, variable = TARGETS[name].partition(".")
    found: Harness = getattr(import_module(f"tests.fuzz.{module}"), variable)
    return found
