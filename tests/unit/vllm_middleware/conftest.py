"""Fixtures: the middleware without its thread; tests call the thread's work themselves."""

import pytest

from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside
from tests.unit.vllm_middleware.harness import Exporter, configure


@pytest.fixture
def exporter(monkeypatch):
    """An exporter that accepts everything, for which the middleware is configured."""
    with Exporter() as exporter:
        configure(monkeypatch, URL=exporter.url)
        yield exporter


@pytest.fixture(autouse=True)
def by_hand(monkeypatch):
    monkeypatch.setattr(inside.Reporter, "_run", lambda reporter: None)
    monkeypatch.setattr(inside, "REST_SECONDS", 0.0)
    inside.log_once.cache_clear()
