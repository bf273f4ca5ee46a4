from __future__ import annotations

import resource
from pathlib import Path

import pytest

from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.cli.run import _raise_file_limit, _watched
from spec_decode_exporter.core.user_errors import UsageError


def test_automatic_reload_needs_a_file():
    watching = parse(["--config.auto-reload", "--config.file", "/x"], {})
    assert _watched(watching) == Path("/x")
    assert _watched(parse(["--config.file", "/x"], {})) is None
    with pytest.raises(UsageError, match="there is no file to watch"):
        _watched(parse(["--config.auto-reload"], {}))


@pytest.fixture
def limits(monkeypatch):
    """The limits of descriptors, soft and hard, of a process that is none: ``limits.now`` is read and set."""

    class Limits:
        now = (1024, 524_288)
        error = None

        def set(self, _, limits):
            if self.error:
                raise self.error
            self.now = limits

    limits = Limits()
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits.now)
    monkeypatch.setattr(resource, "setrlimit", limits.set)
    return limits


def test_the_soft_limit_becomes_the_hard_limit(limits):
    _raise_file_limit()
    assert limits.now == (524_288, 524_288)
