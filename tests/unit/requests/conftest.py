"""Requests, stores of them, and what they find."""

import asyncio

import pytest

from spec_decode_exporter.config.schema import RequestSettings
from spec_decode_exporter.requests.record import RequestRecord
from spec_decode_exporter.requests.store import RequestStore
from tests.fakes.costs import make_cost

COST = make_cost()  # c = 0.1 and c0 = 0.1


def request_of(drafts=30, accepted_tokens=60, *, tokens=4, model_name="llama", **more):
    return RequestRecord(model_name, drafts, tokens * drafts, accepted_tokens, tokens, **more)


def store_of(**settings):
    return RequestStore(RequestSettings(ingest=True, **settings))


def evaluate(store, now, windows=(30.0, 300.0)):
    return asyncio.run(store.findings(windows, now))


def taken(requests, cost=COST):
    """Return the findings about requests that ended at one moment, in five minutes."""
    store = store_of()
    for request in requests:
        store.take(request, 1000.0, cost)
    return evaluate(store, 1000.0).windows["5m"]


@pytest.fixture(name="users")
def users_fixture(tmp_path):
    salt = tmp_path / "salt"
    salt.write_text("0123456789abcdef")
    return {"salt_file": str(salt), "max": 10}
