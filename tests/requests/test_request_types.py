from __future__ import annotations

from spec_decode_exporter.analysis.drops.mix import TypeSums
from spec_decode_exporter.requests.request_findings import GroupKey
from spec_decode_exporter.requests.request_record import RequestRecord
from spec_decode_exporter.requests.request_types import RequestTypes


def added(types, request_type, drafts, accepted, target="", temperature="0", model_name="m"):
    record = RequestRecord(model_name, drafts, 3 * drafts, accepted, 3, request_type, target=target)
    types.add(GroupKey(model_name, request_type, temperature), record)


def test_requests_are_summed_by_type_and_temperature():
    types = RequestTypes()
    added(types, "chat", 10, 5)
    added(types, "chat", 20, 10)
    added(types, "chat", 10, 2, temperature="to 1")
    added(types, "code", 5, 15)
    assert types.totals("m", "any") == {
        "chat 0": TypeSums(30, 15),
        "chat to 1": TypeSums(10, 2),
        "code 0": TypeSums(5, 15),
    }


def test_a_target_has_its_own_requests_if_the_sender_names_targets():
    types = RequestTypes()
    added(types, "chat", 10, 5, target="a")
    added(types, "code", 10, 9, target="b")
    assert types.totals("m", "a") == {"chat 0": TypeSums(10, 5)}
    assert types.totals("m", "c") == {}


def test_other_models_do_not_count():
    types = RequestTypes()
    added(types, "chat", 10, 5, model_name="other")
    assert types.totals("m", "") == {}
