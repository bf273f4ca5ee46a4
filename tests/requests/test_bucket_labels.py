"""Labels of buckets of temperatures and prompt lengths, and their texts."""

from __future__ import annotations

import pytest

from spec_decode_exporter.requests.bucket_labels import bucket_labels, bucket_text


@pytest.mark.parametrize(
    ("bounds", "labels"),
    [
        ((0.0, 0.3, 0.7, 1.0), ["0", "0-0.3", "0.3-0.7", "0.7-1", ">1"]),
        ((0.5, 1.25), ["0-0.5", "0.5-1.25", ">1.25"]),
        ((1000, 64_000), ["0-1000", "1000-64000", ">64000"]),
        ((5,), ["0-5", ">5"]),
        ((0.00001, 1.0), ["0-0.00001", "0.00001-1", ">1"]),
    ],
)
def test_a_label_names_both_bounds_without_a_space(bounds, labels):
    assert bucket_labels(bounds) == labels


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("0", "0"),
        ("0-0.3", "up to 0.3"),
        ("0.7-1", "up to 1"),
        (">1", "above 1"),
        ("unknown", "unknown"),
        ("other", "other"),
    ],
)
def test_a_label_has_a_readable_text(label, text):
    assert bucket_text(label) == text


def test_every_label_of_configured_bounds_has_words():
    for label in bucket_labels((0.0, 0.3, 1e-7 + 0.3, 2.0))[1:]:
        words = bucket_text(label)
        assert words.startswith(("up to ", "above "))
        float(words.rpartition(" ")[2])
