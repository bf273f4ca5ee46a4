"""The middleware with its thread left out: tests do its work by hand, at times of their own."""

from __future__ import annotations

import pytest

from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside
from tests.vllm_middleware.harness import Exporter


@pytest.fixture
def exporter():
    with Exporter() as exporter:
        yield exporter


@pytest.fixture(autouse=True)
def by_hand(monkeypatch):
    monkeypatch.setattr(inside.Reporter, "_start", lambda reporter: None)


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch):
    """The thread's clock stands still: a slow machine, or a tracer, must not make a request too costly."""
    monkeypatch.setattr(inside.time, "thread_time", lambda: 0.0)


@pytest.fixture
def settings(monkeypatch):
    """Return what sets the variables of the middleware, without their prefix."""

    def setting(**values):
        for name, value in values.items():
            monkeypatch.setenv(inside.PREFIX + name, str(value))

    return setting


@pytest.fixture
def wrap(settings, exporter):
    """Return what puts the middleware around an application, with an exporter that takes everything."""
    settings(URL=exporter.url)
    return inside.Middleware
