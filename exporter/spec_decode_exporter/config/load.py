"""Load the configuration from YAML, environment and flags; report every mistake at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import yaml

from spec_decode_exporter.config.mistakes import Mistake
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.source import FLAGS, Source, read_source
from spec_decode_exporter.config.types import Context, Expanded, ReadRates, SettingsPlace

IN_CHART: Final = "SPEC_DECODE_EXPORTER_IN_CHART"
"""Variable that the Helm chart sets: its values are the place of the settings."""
_REFERENCE: Final = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}|(?P<broken>\{))")


def load(
    path: Path | None,
    *,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
    checks: Sequence[Callable[[Config], Iterator[Mistake]]] = (),
    read_rates: ReadRates | None = None,
) -> Config:
    """Return the configuration in the file at ``path``, or the defaults without a file.

    Args:
        path: The configuration file.
        environ: Variables for ``${NAME}``.
        overrides: Values of flags by the dotted path of their key, such as ``poll.interval``. They replace
            the values of the file.
        checks: Further checks of a configuration that the schema accepts.
        read_rates: Reads the acceptance rates of a reference file.

    Raises:
        ConfigError: The configuration cannot be used; the error lists every mistake.
    """
    source = Source(FLAGS) if path is None else read_source(path, partial(expand, environ=environ))
    for name, value in (overrides or {}).items():
        _override(source, name, value)
    directory = Path() if path is None else path.parent
    edited: SettingsPlace = "chart" if environ.get(IN_CHART) else "file" if path else "flags"
    config = source.validated(Config, Context(directory, read_rates, edited))
    for check in checks:
        for place, message in check(config):
            source.add_problem(place, message)
    source.refuse()
    return config


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Return ``text`` with its variables replaced; the same text if it names none.

    Raises:
        ValueError: A variable is not set, or a reference is not complete.
    """
    value, references = _REFERENCE.subn(lambda match: _value(match, environ), text)
    return Expanded.of(value, text) if references else text


def _value(match: re.Match[str], environ: Mapping[str, str]) -> str:
    if match["broken"]:
        raise ValueError("`${` without a variable; write `${NAME}`, or `$${` for these two characters")
    name = match["name"]
    if name is not None and name not in environ:
        raise ValueError(
            f"the environment variable {name} is not set; set it, or write `$${{{name}}}` for the text"
        )
    return "$" if name is None else environ[name]


def _override(source: Source, name: str, value: object) -> None:
    """Replace the value of a key."""
    *sections, key = name.split(".")
    inner = source.data
    for section in sections:
        inner = inner.setdefault(section, {})
        if not isinstance(inner, dict):
            return  # the schema reports the section
    inner[key] = value
    source.overridden.append((*sections, key))


def active_yaml(config: Config) -> str:
    """Return the configuration in effect, without keys that have no value, secrets, or queries of URLs.

    The types hide secrets when they are dumped as JSON.
    """
    written = _trimmed(config.model_dump(mode="json"))
    return yaml.safe_dump(written, sort_keys=False, allow_unicode=True)


def _trimmed(value: object) -> object:
    """Omit keys without a value."""
    if isinstance(value, dict):
        trimmed = {key: _trimmed(inner) for key, inner in value.items()}
        return {key: inner for key, inner in trimmed.items() if inner not in (None, {}, [])}
    return [_trimmed(inner) for inner in value] if isinstance(value, list) else value
