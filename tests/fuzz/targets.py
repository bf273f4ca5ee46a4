"""ONE table: every parser that is fed by strangers, by the name of its corpus."""

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
    "query": "requests.QUERY",
    "headers": "requests.HEADERS",
    "sent-requests": "wire.SENT",
}


def harness(name: str) -> Harness:
    """Import a harness, and with it what it attacks: not before coverage is switched on."""
    module, _, variable = TARGETS[name].partition(".")
    found: Harness = getattr(import_module(f"tests.fuzz.{module}"), variable)
    return found
