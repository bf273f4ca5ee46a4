from __future__ import annotations

import resource

import pytest

from spec_decode_exporter.core.open_files import raise_limit


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
    raise_limit()
    assert limits.now == (524_288, 524_288)


@pytest.mark.parametrize("error", [ValueError("current limit exceeds maximum limit"), PermissionError()])
def test_an_error_keeps_the_limit(limits, error):
    limits.error = error
    raise_limit()
    assert limits.now == (1024, 524_288)


def test_an_equal_limit_is_not_set_again(limits):
    limits.now, limits.error = (4096, 4096), AssertionError("it was asked for")
    raise_limit()
