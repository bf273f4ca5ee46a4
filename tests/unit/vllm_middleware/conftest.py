"""Fixtures: the middleware without its thread; tests call the thread's work themselves."""

import pytest

from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside
from tests.unit.vllm_middleware.harness import Exporter


@pytest.fixture
def exporter():
    with Exporter() as exporter:
        yield exporter


@pytest.fixture(autouse=True)
def by_hand(monkeypatch):
    monkeypatch.setattr(inside.Reporter, "_run", lambda reporter: None)
    monkeypatch.setattr(inside, "REST_SECONDS", 0.0)
    inside.log_once.cache_clear()


@pytest.fixture
def settings(monkeypatch):
    """Return a function that sets environment variables of the middleware, without their prefix."""

    def setting(**values):
        for name, value in values.items():
            monkeypatch.setenv(inside.PREFIX + name, str(value))

    return setting


@pytest.fixture
def wrap(settings, exporter):
    """Return the middleware's class, configured for an exporter that accepts everything."""
    settings(URL=exporter.url)
    return inside.Middleware
