"""Ring of stored requests: removal of the oldest, and memory of each."""

from __future__ import annotations

import tracemalloc

from spec_decode_exporter.requests.group_totals import RequestGroup
from spec_decode_exporter.requests.request_findings import GroupKey
from spec_decode_exporter.requests.request_record import RequestRecord
from spec_decode_exporter.requests.stored_requests import MAX_POOLED_STRINGS, StoredRequests

GROUP = RequestGroup(GroupKey("llama", "chat", "0"))


def test_memory_of_names_is_freed():
    """Before Python 3.12.6 interned strings are never freed."""
    tracemalloc.start()
    try:
        stored = StoredRequests(100)
        for number in range(5 * MAX_POOLED_STRINGS):
            stored.add(
                RequestRecord("llama", 1, 4, 1, 4, target=f"{number} {'x' * 1000}"), GROUP, float(number)
            )
        now, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert now < 1.5 * 1100 * MAX_POOLED_STRINGS
