"""Loading configurations from texts."""

import textwrap

import pytest

from spec_decode_exporter.config.load import load
from spec_decode_exporter.config.mistakes import ConfigError


def read(directory, text, *, loader=load, overrides=None, **environ):
    """Load a configuration from a text; ``load`` checks the schema alone, that of ``app.reload`` more."""
    path = directory / "exporter.yml"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return loader(path, environ=environ, overrides=overrides or {})


def mistakes(directory, text, **more):
    """Load an invalid configuration; return its mistakes as ``line: path message``."""
    with pytest.raises(ConfigError) as caught:
        read(directory, text, **more)
    return [
        f"{problem.place.rpartition('exporter.yml:')[2]}: {problem.path} {problem.message}"
        for problem in caught.value.problems
    ]
