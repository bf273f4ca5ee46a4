"""Configuration of an observation: windows and intervals that suit its length, completed addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from spec_decode_exporter.config.load import load
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.types import parse_duration
from spec_decode_exporter.reports.reference_rates import read_rates
from spec_decode_exporter.scrape.credentials import credential_mistakes

MAX_WINDOW: Final = 3600.0
"""Longest window, in seconds, of an observation without an end."""

DEFAULT_SECONDS: Final = 60.0
"""Default length of an observation: in 30 s too few requests pass for bounds and advice on usual answers."""
RECENT: Final = 30.0
"""Length, in seconds, of the short second window of a longer observation."""

MIN_POLLS: Final = 6
"""Minimum number of polls of each server in an observation."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def observed_config(
    targets: Sequence[str | Mapping[str, Any]],
    seconds: float,
    *,
    path: Path | None = None,
    environ: Mapping[str, str] = _NOTHING,
    overrides: Mapping[str, object] = _NOTHING,
    as_exporter: bool = False,
) -> Config:
    """Return the configuration of an observation.

    Args:
        targets: Addresses, see ``completed_url``, or keys of ``targets`` in a configuration, ``url`` at
            least; empty for the targets of the file.
        seconds: Length of the observation; 0 if it is unknown.
        path: A configuration file. Its windows and intervals are not used, unless ``as_exporter``.
        environ: Values of ``${NAME}`` in the file.
        overrides: Values by the dotted path of their key, as for ``load``.
        as_exporter: Use the windows and intervals of an exporter with this file.

    Raises:
        ConfigError: The configuration has mistakes; all are listed.
    """
    values = dict(overrides) if as_exporter else {**_own_values(seconds, overrides), **overrides}
    if targets:
        values["targets"] = _named(
            [{"url": each} if isinstance(each, str) else dict(each) for each in targets]
        )
    checks = (credential_mistakes,)
    return load(path, environ=environ, overrides=values, checks=checks, read_rates=read_rates)


def _own_values(seconds: float, overrides: Mapping[str, object]) -> dict[str, object]:
    """Return windows and intervals that suit the length of an observation."""
    longest = seconds or MAX_WINDOW
    interval = seconds_of(overrides.get("poll.interval"))
    recent = RECENT if MIN_POLLS * interval <= RECENT else longest
    return {
        "windows": sorted({min(recent, longest), longest}),
        "poll.interval": min(1.0, longest / MIN_POLLS),
        "poll.histogram_interval": max(min(10.0, longest / 3), interval),
    }


def seconds_of(interval: object) -> float:
    """Return the seconds of a flag's duration; 0 for an absent or invalid one."""
    try:
        return parse_duration(str(interval))
    except ValueError:
        return 0.0


def completed_url(text: str) -> str:
    """Complete an address: ``localhost:8000`` and ``:8000`` become http URLs."""
    if "://" in text or not text:
        return text
    return f"http://localhost{text}" if text.startswith(":") else f"http://{text}"


def _named(targets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Complete the addresses; add the path to the names of several pages on one host."""
    for target in targets:
        if isinstance(target.get("url"), str):
            target["url"] = completed_url(target["url"])
    places = [_host_and_path(str(target.get("url", ""))) for target in targets]
    hosts = Counter(host for host, _ in places)
    for target, (host, path) in zip(targets, places, strict=True):
        if hosts[host] > 1 and path:
            target.setdefault("name", f"{host}{path}")
    return targets


def _host_and_path(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url, ""  # the configuration reports the invalid URL
    return parts.netloc, parts.path
