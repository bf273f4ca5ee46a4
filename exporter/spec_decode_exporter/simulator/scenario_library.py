"""Scenarios by name, as included in the package, or by file."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from spec_decode_exporter.config.mistakes import ConfigError, Problem, dotted
from spec_decode_exporter.config.source import explain
from spec_decode_exporter.config.yaml_tree import TreeReader, YamlError, find, parse, read_file
from spec_decode_exporter.simulator.scenario import Scenario

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    import yaml

_SUFFIX: Final = ".yml"


def _scenarios() -> dict[str, Traversable]:
    files = resources.files("spec_decode_exporter.simulator").joinpath("scenarios").iterdir()
    named = {file.name.removesuffix(_SUFFIX): file for file in files if file.name.endswith(_SUFFIX)}
    return dict(sorted(named.items()))


def scenario_names() -> list[str]:
    """Return the names of the included scenarios."""
    return list(_scenarios())


def load_scenario(name: str) -> Scenario:
    """Return the scenario of this name, else the one in the file at this path.

    Raises:
        ConfigError: There is none, or it is invalid; the error has all problems.
    """
    known = _scenarios().get(name)
    if known is not None:
        return read_scenario(known.read_bytes(), f"{name}{_SUFFIX}")
    try:
        return read_scenario(read_file(Path(name)), name)
    except FileNotFoundError:
        names = ", ".join(scenario_names())
        message = f"is neither a file nor a scenario; name the path of a YAML file or one of {names}"
        raise ConfigError([Problem(name, "", message)]) from None
    except YamlError as error:
        raise ConfigError([Problem(name, "", str(error))]) from None
    except OSError as error:
        raise ConfigError([Problem(name, "", f"cannot be read: {error.strerror}")]) from None


def read_scenario(data: bytes, name: str) -> Scenario:
    """Parse a scenario; ``name`` is the file's name in messages.

    Raises:
        ConfigError: It is invalid.
    """
    try:
        root = parse(data)
    except YamlError as error:
        place = f"{name}:{error.line}" if error.line else name
        raise ConfigError([Problem(place, "", str(error))]) from None
    reader = TreeReader()
    values = {} if root is None else reader.read(root)
    problems = [
        Problem(f"{name}:{problem.line}", dotted(problem.path), problem.message)
        for problem in reader.problems
    ]
    if not isinstance(values, dict):
        problems.append(Problem(f"{name}:1", "", "must be a mapping of keys to values, such as `engines: 2`"))
    if problems:
        raise ConfigError(problems)
    return _validated(values, name, root)


def _validated(values: object, name: str, root: yaml.Node | None) -> Scenario:
    try:
        return Scenario.model_validate(values)
    except ValidationError as error:
        raise ConfigError(
            Problem(f"{name}:{find(root, path)[1]}", dotted(path), message)
            for detail in error.errors(include_url=False)
            for path, message in explain(detail, Scenario)
        ) from None
