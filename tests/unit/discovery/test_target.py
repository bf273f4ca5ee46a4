"""Limits of the labels of one discovered target."""

from spec_decode_exporter.config.types import MAX_LABEL_CHARACTERS, MAX_LABEL_VALUE, MAX_LABELS
from spec_decode_exporter.discovery.target import LabelFilter


def test_labels_beyond_the_limits_of_a_target_are_dropped_with_one_warning(log):
    labels = LabelFilter("http a")
    many = labels.kept({f"l{number:03}": "v" for number in range(MAX_LABELS + 9)})
    long = labels.kept({"a": "x" * MAX_LABEL_VALUE, "b": "x" * MAX_LABEL_VALUE, "c": "short"})
    assert (len(many), many[-1][0]) == (MAX_LABELS, f"l{MAX_LABELS - 1:03}")
    assert [name for name, _ in long] == ["a", "c"]
    assert [(entry["discovery"], entry["label"]) for entry in log] == [("http a", f"l{MAX_LABELS:03}")]
    beside = (("own", "x" * (MAX_LABEL_CHARACTERS - len("own") - 4)),)
    assert labels.fitting((("a", "xxxx"), ("b", "xxx"), ("c", "")), beside) == (("b", "xxx"),)


def test_a_list_with_ever_new_labels_does_not_fill_the_log(log):
    labels = LabelFilter("http a")
    for number in range(500):
        labels.kept({f"{number}-x": "y"})
    assert len(log) == 100
    LabelFilter("http b").kept({"1" * 10**6: "y"})
    assert log[-1]["label"] == "1" * 200
