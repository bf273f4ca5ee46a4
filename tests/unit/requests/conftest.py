"""Requests, stores of them, and what they find."""

import asyncio

from spec_decode_exporter.requests.record import RequestRecord
from tests.fakes.costs import make_cost

COST = make_cost()  # c = 0.1 and c0 = 0.1


def request_of(drafts=30, accepted_tokens=60, *, tokens=4, model_name="llama", **more):
    return RequestRecord(model_name, drafts, tokens * drafts, accepted_tokens, tokens, **more)


def evaluate(store, now, windows=(30.0, 300.0)):
    return asyncio.run(store.findings(windows, now))
