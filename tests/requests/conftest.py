"""Fixtures: requests, costs and stores."""

from __future__ import annotations

import asyncio

import pytest

from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.requests.request_record import RequestRecord
from spec_decode_exporter.requests.request_store import RequestStore
from tests.fixtures.costs import make_cost


def request_of(drafts=30, accepted_tokens=60, *, tokens=4, model_name="llama", **more):
    return RequestRecord(model_name, drafts, tokens * drafts, accepted_tokens, tokens, **more)


@pytest.fixture(name="make_request")
def make_request_fixture():
    return request_of


@pytest.fixture(name="make_store")
def make_store_fixture():
    def make(**settings):
        return RequestStore(RequestSettings(ingest=True, **settings))

    return make


@pytest.fixture(name="evaluate")
def evaluate_fixture():
    """Function that evaluates a store, by default at a cost of c = 0.1 and c0 = 0.1."""

    def evaluate(store, now, windows=(30.0, 300.0), costs=None):
        cost = make_cost()
        return asyncio.run(store.findings(windows, now, costs or (lambda model_name, target: cost)))

    return evaluate


@pytest.fixture(name="users")
def users_fixture(tmp_path):
    """Settings that distinguish ten users."""
    salt = tmp_path / "salt"
    salt.write_text("0123456789abcdef")
    return {"salt_file": str(salt), "max": 10}
