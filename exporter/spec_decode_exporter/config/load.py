"""Load the configuration from YAML, environment and flags; report every mistake at once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from spec_decode_exporter.config.environment import expand
from spec_decode_exporter.config.errors import ConfigError, Problem
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.config.source import FLAGS, Source, read_source
from spec_decode_exporter.config.values import Context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from spec_decode_exporter.config.errors import Path as KeyPath
    from spec_decode_exporter.config.values import ReadRates

    ConfigCheck = Callable[[Config], Iterator[tuple[KeyPath, str]]]
    """Yields the path and the text of each mistake that the schema cannot find."""

__all__ = ["ConfigError", "Problem", "load"]

_NO_OVERRIDES: Final[Mapping[str, object]] = MappingProxyType({})


def load(
    path: Path | None,
    *,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] = _NO_OVERRIDES,
    checks: Sequence[ConfigCheck] = (),
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
    for name, value in overrides.items():
        _override(source, name, value)
    directory = Path() if path is None else path.parent
    config = source.validated(Config, Context(directory, read_rates))
    for check in checks:
        for place, message in check(config):
            source.add_problem(place, message)
    source.refuse()
    return config


def _override(source: Source, name: str, value: object) -> None:
    """Replace the value of a key. The sections around it are copied, not changed."""
    *sections, key = name.split(".")
    inner = source.data
    for section in sections:
        below = inner.get(section, {})
        if not isinstance(below, dict):
            return  # the schema reports the section
        inner[section] = inner = dict(below)
    inner[key] = value
    source.overridden.append((*sections, key))
