"""Remembered state: bounds of number, age and size, entries in the file, and periodic saves."""

import json

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.costs.baseline import Baseline
from spec_decode_exporter.costs.learned import DraftingMethod, LearnedState
from spec_decode_exporter.monitor import state
from spec_decode_exporter.monitor.state import (
    BASELINE_SECONDS,
    MAX_BASELINES_OF_TARGET,
    MAX_KEY_LENGTH,
    EngineKey,
    ModelKey,
    Remembered,
    StateSaver,
    Store,
    entry_of,
    group_of,
    line_of,
)
from spec_decode_exporter.window.poll import Counters
from tests.fakes.windows import increment

KEY, MODEL = EngineKey("chat", "llama", "0"), ModelKey("chat", "llama")
END = 1_790_000_000.0
DAY = 86_400.0


def learned(end=END):
    baseline = Baseline()
    for number in range(60):
        wall = end - 59 + number
        counters = dict.fromkeys(Counters._fields, 100 + number)
        baseline.plain(increment(wall - 1.0, wall, load=8.0, **counters), 8.0, wall)
    return baseline


def store(most=4, most_of_target=2, seconds=7 * DAY):
    return Store(most, most_of_target, seconds)


def kept(store, now=END):
    return [(key.target, key.engine) for key, _, _ in store.items(now)]


class TestStore:
    def test_of_one_target_the_newest_stay_and_other_targets_lose_nothing(self):
        values = store()
        values.keep(KEY, 0, END)
        for engine in range(9):
            values.keep(EngineKey("hostile", "m", str(engine)), engine, END)
        assert kept(values) == [("chat", "0"), ("hostile", "7"), ("hostile", "8")]
        assert values.surplus == 0

    def test_of_all_the_newest_stay_and_the_others_are_counted(self):
        values = store()
        for target in "abcde":
            values.keep(EngineKey(target, "m", "0"), target, END)
        values.keep(EngineKey("b", "m", "0"), "B", END)
        values.keep(EngineKey("f", "m", "0"), "f", END)
        assert [target for target, _ in kept(values)] == ["d", "e", "b", "f"]
        assert values.known(EngineKey("b", "m", "0")) == "B"
        assert values.known(EngineKey("a", "m", "0")) is None
        assert values.surplus == 2

    @pytest.mark.parametrize(
        ("age", "stays"), [(7 * DAY, True), (7 * DAY + 1, False), (-DAY, True), (-DAY - 1, False)]
    )
    def test_too_old_values_and_those_of_the_future_are_forgotten(self, age, stays):
        values = store()
        values.keep(KEY, 1, END - age)
        assert (values.known(KEY, END) is not None) is stays
        assert bool(values.items(END)) is stays
        assert (values.known(KEY) is not None) is stays

    @pytest.mark.parametrize(("more", "stays"), [(0, True), (1, False)])
    def test_a_value_with_longer_labels_is_not_remembered(self, more, stays):
        values = store()
        values.keep(EngineKey("t", "m", "e" * (MAX_KEY_LENGTH - 2 + more)), 1, END)
        assert bool(kept(values)) is stays


class TestBaselines:
    def test_ever_new_models_of_a_target_are_bounded(self):
        remembered = Remembered()
        for number in range(3 * MAX_BASELINES_OF_TARGET):
            remembered.keep_baseline(ModelKey("chat", str(number)), learned())
        entries = list(remembered.entries(END))
        assert len(entries) == MAX_BASELINES_OF_TARGET
        assert list(remembered.entries(END + BASELINE_SECONDS + 1)) == []


def remembered(engines=1):
    found = Remembered()
    for engine in range(engines):
        found.engines.keep(KEY._replace(engine=str(engine)), LearnedState(4), END)
    found.keep_baseline(MODEL, learned())
    return found


def read_back(lines):
    found = Remembered()
    found.recall(map(entry_of, lines))
    return found


def test_what_is_remembered_comes_back_from_its_lines():
    lines = list(map(line_of, remembered().entries(END)))
    again = read_back(lines)
    assert again.engines.known(KEY) == LearnedState(4)
    assert again.baseline(MODEL).summary(END) == learned().summary(END)
    assert list(map(line_of, again.entries(END))) == lines


def changed(**fields):
    line = json.loads(line_of(next(remembered().entries(END))))
    return json.dumps({**line, **fields}).encode()


HUGE = b"1" + b"0" * 400
DAMAGED = {
    "empty": b"",
    "list": b"[]",
    "another kind": changed(kind="verdict"),
    "NaN": changed(seen=float("nan")),
    "infinite": changed(seen=1.0).replace(b"1.0", b"1e999"),
    "huge integer": changed(seen=1.0).replace(b"1.0", HUGE),
    "more digits than Python reads": changed(seen=1.0).replace(b"1.0", HUGE * 20),
    "negative time": changed(seen=-1.0),
    "long label": changed(target="t" * (MAX_KEY_LENGTH + 1)),
    "half a surrogate": changed(target="x").replace(b'"x"', b'"\\ud800"'),
    "nested": b"[" * 60_000,
    "long": changed(learned={"tokens": 4, "x": "y" * 70_000}),
    "impossible K": changed(learned={"tokens": 10**9}),
}


@pytest.mark.parametrize("line", DAMAGED.values(), ids=DAMAGED)
def test_a_line_that_is_no_entry_has_a_reason(line):
    with pytest.raises(ValueError, match=r"^.{5,}$") as raised:
        entry_of(line)
    assert len(str(raised.value)) <= 100


@pytest.mark.parametrize("method", ["\ud800", "x" * 70_000], ids=["surrogate", "long"])
def test_an_entry_that_cannot_be_read_again_has_no_line(method):
    found = Remembered()
    found.engines.keep(KEY, LearnedState(4, DraftingMethod(method)), END)
    assert list(map(line_of, found.entries(END))) == [None]


async def test_more_engines_than_the_file_may_hold_are_logged_once_until_all_fit(
    tmp_path, clock, monkeypatch
):
    monkeypatch.setattr(state, "MAX_STATES", 50)
    found = Remembered()
    saver = StateSaver(found, clock, lambda: None)
    saver.begin(tmp_path / "state.json")

    async def saved(engines):
        for number in range(engines):
            found.engines.keep(EngineKey(str(number), "m", "0"), LearnedState(4), clock.wall())
        await saver.save()

    with capture_logs() as logs:
        for engines in (52, 52, 0, 52):
            await saved(engines)
    assert [log["event"] for log in logs] == ["baselines_forgotten"] * 2
    assert logs[0]["forgotten"] == 2
    again = Remembered()
    StateSaver(again, clock, lambda: None).begin(tmp_path / "state.json")
    assert len(again.engines.items(clock.wall())) == 50


def test_present_state_precedes_that_of_the_file():
    found = Remembered()
    found.engines.keep(KEY, LearnedState(2), END)
    found.keep_baseline(MODEL, learned(END + 100.0))
    found.recall(map(entry_of, map(line_of, remembered().entries(END))))
    assert found.engines.known(KEY) == LearnedState(2)
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
        ({"namespace": "prod", "pod": "chat-6c9f8d7b5-x2x9w"}, "namespace=prod,pod=chat"),
        ({"namespace": "prod", "pod": "chat-12"}, "namespace=prod,pod=chat"),
        ({"namespace": "prod", "pod": "llama-3-70b"}, "namespace=prod,pod=llama-3-70b"),
        ({"service": "", "app": "chat"}, "app=chat"),
    ],
)
def test_a_group_is_named_by_the_labels_that_name_no_process(labels, group):
    assert group_of(labels, "chat-0") == group


def test_a_baseline_of_an_older_file_is_that_of_its_target():
    line = json.loads(line_of(next(each for each in remembered().entries(END) if each.kind == "baseline")))
    older = {"target": line.pop("group"), **line}
    assert read_back([json.dumps(older).encode()]).baseline(MODEL).summary(END) == learned().summary(END)
