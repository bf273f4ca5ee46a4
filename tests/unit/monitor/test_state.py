"""Remembered state: bounds of number and age, groups of servers, and which of two states counts."""

import pytest

from spec_decode_exporter.costs.baseline import Baseline
from spec_decode_exporter.costs.learned import LearnedState
from spec_decode_exporter.monitor import state
from spec_decode_exporter.monitor.state import BASELINE_SECONDS, Remembered, group_of, parsed_state
from spec_decode_exporter.window.poll import Counters
from tests.fakes.saved_state import document_of
from tests.fakes.windows import increment

KEY, MODEL = ("chat", "llama", "0"), ("chat", "llama")
END = 1_790_000_000.0
DAY = 86_400.0


def learned(end=END):
    baseline = Baseline()
    for number in range(60):
        wall = end - 59 + number
        counters = dict.fromkeys(Counters._fields, 100 + number)
        baseline.plain(increment(wall - 1.0, wall, load=8.0, **counters), 8.0, wall)
    return baseline


def remembered():
    found = Remembered()
    found.keep_engine(KEY, LearnedState(4), END)
    found.keep_baseline(MODEL, learned())
    return found


def test_of_too_many_engines_those_stay_that_were_kept_last(monkeypatch):
    monkeypatch.setattr(state, "MAX_STATES", 3)
    found = Remembered()
    for target in ("a", "b", "c", "a", "d"):
        found.keep_engine((target, "m", "0"), LearnedState(4), END)
    assert [each.target for each in found.state(END).engines] == ["c", "a", "d"]


@pytest.mark.parametrize(("age", "stays"), [(7 * DAY, True), (7 * DAY + 1, False)])
def test_too_old_states_are_forgotten(age, stays):
    found = Remembered()
    found.keep_engine(KEY, LearnedState(4), END - age)
    assert (found.engine(KEY, END) is not None) is stays
    assert bool(found.state(END).engines) is stays


def test_ever_new_models_are_bounded_and_their_baselines_expire(monkeypatch):
    monkeypatch.setattr(state, "MAX_BASELINES", 3)
    found = Remembered()
    for number in range(5):
        found.keep_baseline(("chat", str(number)), learned())
    assert [each.model_name for each in found.state(END).baselines] == ["2", "3", "4"]
    assert found.state(END + BASELINE_SECONDS + 1).baselines == []


def test_what_is_remembered_comes_back_from_its_document():
    document = document_of(remembered(), END)
    again = Remembered()
    again.recall(parsed_state(document))
    assert again.engine(KEY, END) == LearnedState(4)
    assert again.baseline(MODEL).summary(END) == learned().summary(END)
    assert document_of(again, END) == document


def test_present_state_precedes_that_of_the_file():
    found = Remembered()
    found.keep_engine(KEY, LearnedState(2), END)
    found.keep_baseline(MODEL, learned(END + 100.0))
    found.recall(parsed_state(document_of(remembered(), END)))
    assert found.engine(KEY, END) == LearnedState(2)
    assert found.baseline(MODEL).end == END + 100.0


@pytest.mark.parametrize(
    ("labels", "group"),
    [
        ({}, "chat-0"),
        ({"rack": "07", "instance": "10.0.0.1:8000"}, "chat-0"),
        ({"deployment": "chat", "namespace": "prod", "pod": "chat-1"}, "namespace=prod,deployment=chat"),
        ({"cluster": "east", "service": "chat", "pod": "chat-1"}, "cluster=east,service=chat"),
        ({"job": "vllm", "pod": "chat-6c9f8d7b5-x2x9w"}, "job=vllm,pod=chat"),
        ({"job": "vllm", "pod": "chat-6c9f8-abcde"}, "job=vllm,pod=chat"),
        ({"job": "vllm", "namespace": "prod", "instance": "10.0.0.1:8000"}, "chat-0"),
        ({"job": "vllm", "pod": "chat-with-drafts"}, "job=vllm"),
        ({"namespace": "prod", "pod": "chat-6c9f8d7b5-x2x9w"}, "namespace=prod,pod=chat"),
        ({"namespace": "prod", "pod": "chat-12"}, "namespace=prod,pod=chat"),
        ({"namespace": "prod", "pod": "llama-3-70b"}, "namespace=prod,pod=llama-3-70b"),
        ({"service": "", "app": "chat"}, "app=chat"),
    ],
)
def test_a_group_is_named_by_the_labels_that_name_no_process(labels, group):
    assert group_of(labels, "chat-0") == group
