"""Configuration of ``observe`` and ``recommend``: the servers of their flags and of a file."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from spec_decode_exporter.cli.flags import (
    ENVIRONMENT_PREFIX,
    SERVER_FLAGS,
    Flag,
    add_flags,
    general_keys,
    is_given,
    scenario,
    speculation_keys,
)
from spec_decode_exporter.config.schema import DEFAULT_URL, Config
from spec_decode_exporter.config.types import Expanded
from spec_decode_exporter.core.user_errors import UsageError
from spec_decode_exporter.reports.observation import observed_config

PROMETHEUS: Final = "prometheus"  # the value of ``--format`` for metrics, as an exporter would show them
_SIMULATE: Final = Flag(
    "--simulate", "SCENARIO", "observe an embedded simulated vLLM instead of real servers", read=scenario
)
_CONFIG_FILE: Final = Flag(
    "--config.file", "FILE", "a configuration with cost and policy, and with targets if no URL is given"
)
_HTTP_KEYS: Final = {
    "AUTHORIZATION_CREDENTIALS": ("authorization", "credentials"),
    "BASIC_AUTH_USERNAME": ("basic_auth", "username"),
    "BASIC_AUTH_PASSWORD": ("basic_auth", "password"),
    "TLS_CA_FILE": ("tls_config", "ca_file"),
}
"""HTTP keys of a target by the variable that sets them: a flag would show a secret to other users."""
HTTP_HELP: Final = f"""\
Variables for requests to servers and to --prometheus.url, each with the prefix {ENVIRONMENT_PREFIX}:
  AUTHORIZATION_CREDENTIALS                    a bearer token
  BASIC_AUTH_USERNAME and BASIC_AUTH_PASSWORD  a user
  HTTP_HEADERS                                 headers, one a line, such as 'X-Scope-OrgID: team-a'
  TLS_CA_FILE                                  certificate authorities to trust instead of the system's
"""


def add_server_arguments(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the arguments that name servers and say what is known about them."""
    servers: dict[str, Any] = {"dest": "urls", "metavar": "URL", "action": "extend", "default": []}
    parser.add_argument(
        **servers, nargs="*", help="metrics pages (default: localhost:8000); the default path is /metrics"
    )
    parser.add_argument("--target", **servers, nargs=1, help="the same as URL")
    add_flags(parser, [_SIMULATE])
    parser.set_defaults(simulated=None)
    add_flags(parser, (_CONFIG_FILE, *SERVER_FLAGS), environ)


def read_config(
    arguments: argparse.Namespace, environ: Mapping[str, str], *, needs_targets: bool = True
) -> Config:
    """Load the configuration of an observation; ``needs_targets`` rejects one without targets.

    Raises:
        ConfigError: It has mistakes.
        UsageError: Flags contradict each other.
    """
    path = Path(arguments.config_file) if arguments.config_file and not arguments.simulate else None
    targets = _targets(arguments, environ)
    values = general_keys(arguments)
    if getattr(arguments, "record", None) is not None:
        values["poll.filter"] = "off"  # recordings hold whole pages, so that every replay has histograms
    config = observed_config(
        targets,
        arguments.seconds,
        path=path,
        environ=environ,
        overrides=values,
        as_exporter=getattr(arguments, "format", "") == PROMETHEUS,
    )
    if needs_targets and not config.targets:
        raise UsageError(f"{path} lists no targets, and this command does not use discovery: give URLs")
    return config


def _targets(arguments: argparse.Namespace, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the targets of the command line, with the keys that flags set; empty for those of the file."""
    if arguments.simulate:
        if arguments.urls or is_given(arguments.config_file):
            raise UsageError("--simulate brings its own target; use it without URLs and --config.file")
        return [arguments.simulated]
    keys = _http_keys(environ)
    if speculation := speculation_keys(arguments):
        keys["speculative"] = speculation
    if arguments.config_file and not arguments.urls:
        return []
    return [{"url": url, **keys} for url in arguments.urls or [DEFAULT_URL]]


def _http_keys(environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the HTTP keys of a target that variables set; raise UsageError for a header without a value."""
    keys = dict[str, dict[str, Any]]()
    for name, (section, key) in _HTTP_KEYS.items():
        if value := environ.get(ENVIRONMENT_PREFIX + name):
            keys.setdefault(section, {})[key] = Expanded.of(value, f"${{{ENVIRONMENT_PREFIX}{name}}}")
    headers = environ.get(f"{ENVIRONMENT_PREFIX}HTTP_HEADERS", "")
    for line in filter(None, map(str.strip, headers.splitlines())):
        header, colon, value = line.partition(":")
        if not colon:
            raise UsageError(f"{ENVIRONMENT_PREFIX}HTTP_HEADERS: write a header as `NAME: VALUE`")
        keys.setdefault("http_headers", {})[header.strip()] = {"values": [value.strip()]}
    return keys
