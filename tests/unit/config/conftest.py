"""Fixtures that write and load configuration files."""

from __future__ import annotations

import textwrap

import pytest

from spec_decode_exporter.config.load import load
from spec_decode_exporter.config.mistakes import ConfigError


@pytest.fixture
def write(tmp_path):
    """Write a configuration file and return its path."""

    def write_file(text: str):
        path = tmp_path / "exporter.yml"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def loader():
    """Load by the schema alone; ``tests/unit/app`` has the other checks too."""
    return load


@pytest.fixture
def read(write, loader):
    """Load a configuration from a text."""

    def read_text(text: str, overrides=None, **environ: str):
        return loader(write(text), environ=environ, overrides=overrides or {})

    return read_text


@pytest.fixture
def mistakes(read, tmp_path):
    """Load an invalid configuration; return its mistakes as ``line: path message``."""

    def refused(text: str, **environ):
        with pytest.raises(ConfigError) as caught:
            read(text, **environ)
        return [
            f"{problem.place.rpartition('exporter.yml:')[2]}: {problem.path} {problem.message}"
            for problem in caught.value.problems
        ]

    refused.directory = tmp_path
    return refused
