"""Reading the configuration: YAML, the environment and the flags, and every mistake in them at once."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from exporter.config.environment import FromVariable, expand
from exporter.config.explain import explain
from exporter.config.problem import ConfigError, Problem, dotted
from exporter.config.schema import Config
from exporter.config.tree import Reader, YamlError, find, parse
from exporter.config.values import Context
from exporter.scrape.credentials import headers, ssl_context
from exporter.scrape.errors import PollError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import yaml

    from exporter.config.problem import Path as KeyPath
    from exporter.config.schema import HttpSettings

__all__ = ["ConfigError", "Problem", "load"]

_NO_OVERRIDES: Final[Mapping[str, object]] = MappingProxyType({})
_FLAGS: Final = "command line"
"""The place of a mistake in a flag. One in the variable that stands for a flag has the variable's name."""


@dataclass(slots=True)
class _Source:
    """A configuration file, as far as it could be read."""

    name: str
    root: yaml.Node | None = None
    data: dict[str, Any] = field(default_factory=dict)
    problems: list[tuple[int, Problem]] = field(default_factory=list)
    broken: set[int] = field(default_factory=set)
    overridden: list[KeyPath] = field(default_factory=list)

    def complain(self, path: KeyPath, message: str, line: int | None = None) -> None:
        """Note a mistake at its line, unless its value is known to be wrong already."""
        flagged = self.name == _FLAGS or any(path[: len(known)] == known for known in self.overridden)
        if line is None and flagged:
            self.problems.append((0, Problem(_giver(self.data, path), dotted(path), message)))
            return
        node, found = find(self.root, path)
        if line is not None or id(node) not in self.broken:
            place = f"{self.name}:{line or found}" if self.root is not None else self.name
            self.problems.append((line or found, Problem(place, dotted(path), message)))

    def refuse(self) -> None:
        """Raise what was noted, in the order of the file; do nothing if all is well."""
        if self.problems:
            ordered = sorted(self.problems, key=lambda noted: noted[0])
            raise ConfigError(dict.fromkeys(problem for _, problem in ordered))


def _giver(data: object, path: KeyPath) -> str:
    """Return what gave the value at ``path``, or the nearest around it: a variable, or the command line."""
    for step in path:
        below = _below(data, step)
        if below is None:
            break
        data = below
    return next(_variables(data), _FLAGS)


def _below(data: object, step: str | int) -> object:
    if isinstance(data, dict):
        return data.get(step)
    return data[step] if isinstance(data, list) and isinstance(step, int) else None


def _variables(data: object) -> Iterator[str]:
    """Yield the names of the variables that values in ``data`` come from."""
    if isinstance(data, FromVariable):
        yield data.variable
    inside = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    for value in inside:
        yield from _variables(value)


def load(
    path: Path | None,
    *,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] = _NO_OVERRIDES,
    metrics: Collection[str] = (),
) -> Config:
    """Return the configuration in the file at ``path``; without a file, the defaults.

    ``environ`` is where ``${NAME}`` is looked up. ``overrides`` are values of flags by the dotted path of
    their key, such as ``poll.interval``; they replace what the file says. ``metrics`` are the names that
    may be switched on and off; without any, every name may.

    Raises:
        ConfigError: It cannot be used; it holds every mistake that could be found.
    """
    source = _Source(_FLAGS) if path is None else _read(path, environ)
    for name, value in overrides.items():
        _override(source, name, value)
    directory = Path() if path is None else path.parent
    try:
        config = Config.model_validate(source.data, context=Context(directory, metrics))
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            for place, message in explain(detail, Config):
                source.complain(place, message)
    else:
        _check_credentials(config, source)
    source.refuse()
    return config


def _read(path: Path, environ: Mapping[str, str]) -> _Source:
    source = _Source(str(path))
    try:
        source.root = parse(path.read_bytes())
    except YamlError as error:
        place = f"{path}:{error.line}" if error.line else str(path)
        raise ConfigError([Problem(place, "", str(error))]) from None
    except OSError as error:
        raise ConfigError([Problem(str(path), "", f"cannot be read: {error.strerror}")]) from None
    if source.root is not None:
        _fill(source, Reader(partial(expand, environ=environ)), source.root)
    return source


def _fill(source: _Source, reader: Reader, root: yaml.Node) -> None:
    data = reader.read(root)
    source.broken = reader.broken
    for flaw in reader.flaws:
        source.complain(flaw.path, flaw.message, flaw.line)
    if isinstance(data, dict):
        source.data = copy.copy(data)
    elif data is not None:
        source.complain((), "must be a mapping of keys to values, such as `poll:`", 1)


def _override(source: _Source, name: str, value: object) -> None:
    """Put a flag's value in the place of the file's. What the file has around it is copied, not changed."""
    *sections, key = name.split(".")
    inner = source.data
    for section in sections:
        below = inner.get(section, {})
        if not isinstance(below, dict):
            return  # the section itself is wrong, which is what there is to say
        inner[section] = inner = dict(below)
    inner[key] = value
    source.overridden.append((*sections, key))


def _check_credentials(config: Config, source: _Source) -> None:
    """Build what the requests will need once now: a wrong certificate is a mistake of the configuration."""
    for path, settings in _asked(config):
        try:
            headers(settings)
            if settings.tls_config is not None:
                ssl_context(settings)
        except PollError as error:
            source.complain(path, f"cannot be used: {error}")


def _asked(config: Config) -> Iterator[tuple[KeyPath, HttpSettings]]:
    yield from ((("targets", index), target) for index, target in enumerate(config.targets))
    yield from ((("discovery", "http", index), way) for index, way in enumerate(config.discovery.http))
    yield from (
        (("discovery", "kubernetes", index), way) for index, way in enumerate(config.discovery.kubernetes)
    )
    yield ("discovery", "scrape"), config.discovery.scrape
