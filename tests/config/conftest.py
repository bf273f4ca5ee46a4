"""Configurations written on the spot."""

from __future__ import annotations

import textwrap

import pytest

from spec_decode_exporter.config.load import ConfigError, load


@pytest.fixture
def write(tmp_path):
    """Write a configuration file and return its path."""

    def write_file(text: str):
        path = tmp_path / "exporter.yml"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def read(write):
    """Load a configuration given as text."""

    def read_text(text: str, overrides=None, **environ: str):
        return load(write(text), environ=environ, overrides=overrides or {})

    return read_text


@pytest.fixture
def mistakes(read, tmp_path):
    """Load a configuration that is wrong; return its mistakes as ``line: path message``."""

    def refused(text: str, **given):
        with pytest.raises(ConfigError) as caught:
            read(text, **given)
        return [
            f"{problem.place.rpartition('exporter.yml:')[2]}: {problem.path} {problem.message}"
            for problem in caught.value.problems
        ]

    refused.directory = tmp_path
    return refused
