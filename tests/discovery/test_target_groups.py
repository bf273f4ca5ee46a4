from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.config.http_settings import HeaderValues
from spec_decode_exporter.config.labels import MAX_LABEL_VALUE
from spec_decode_exporter.config.target_settings import Scrape
from spec_decode_exporter.discovery.target_discovery import DiscoveryError
from spec_decode_exporter.discovery.target_groups import Listing


def listed(groups, scrape=None):
    return Listing("file a.yml", "file", scrape or Scrape()).targets(groups)


def test_the_configured_credentials_apply_to_every_target():
    scrape = Scrape(scheme="https", metrics_path="/m", http_headers={"X-A": HeaderValues(values=("b",))})
    [target] = listed([{"targets": ["a:1"]}], scrape)
    assert (target.url, target.http) == ("https://a:1/m", scrape.http)


def test_a_list_with_ever_new_labels_does_not_fill_the_log(log):
    listing = Listing("http a", "http", Scrape())
    for number in range(50):
        listing.targets([{"targets": ["a:1"], "labels": {f"{number}-{one}": "y" for one in range(10)}}])
    listing.targets([{"targets": ["a:1"], "labels": {"1" * 10**6: "y"}}])
    assert len(log) == 100
    Listing("http b", "http", Scrape()).targets([{"targets": ["a:1"], "labels": {"1" * 10**6: "y"}}])
    assert log[-1]["label"] == "1" * 200


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"targets": ["a:1"]}, "the list must be a list, not a mapping"),
        (["a:1"], r"\[0\] must be a mapping of keys to values, not 'a:1'"),
        ([{"targts": []}], r"\[0\].targts is not a known key here; did you mean `targets`\?"),
        ([{"targets": [5]}], r"\[0\].targets\[0\] must be a text"),
        ([{"targets": ["a:1"], "labels": {"a": ["b"]}}], r"\[0\].labels.a must be a text, not a list"),
        ([{"x": 1}] * 9, r"^\[0\].x is not a known key"),
        ([{f"x{number}": 1 for number in range(9)}], "and 6 more"),
        ([{"targets": ["http://a:1"]}], r"\[0\].targets\[0\] is not `host:port`"),
        ([{"targets": ["u:hunter2@a"]}], r"\[0\].targets\[0\] is not `host:port`"),
        (
            [{"targets": ["a"], "labels": {"__scheme__": "ftp"}}],
            r"\[0\].targets\[0\] has a scheme that is neither",
        ),
        (
            [{"targets": ["a"], "labels": {"__metrics_path__": "//evil.example/"}}],
            r"\[0\] has an unusable path",
        ),
        (
            [{"targets": ["a"], "labels": {"__param_x": "\ud800"}}],
            r"\[0\] has a parameter with half of a character",
        ),
    ],
)
def test_an_unusable_list_is_rejected_with_the_position(groups, message):
    with pytest.raises(DiscoveryError, match=message) as caught:
        listed(groups)
    assert "hunter2" not in str(caught.value)
    assert caught.value.targets is None


json = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["a:1", "[::1]:80", "\ud800"]),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(
            st.sampled_from(["targets", "labels", "__scheme__", "x"]) | st.text(max_size=3), below, max_size=3
        )
    ),
    max_leaves=12,
)


@given(json)
def test_any_list_gives_targets_or_an_error(groups):
    try:
        targets = listed(groups)
    except DiscoveryError:
        return
    assert all(target.url.startswith(("http://", "https://")) for target in targets)


def test_a_name_or_method_that_is_no_label_value_is_dropped_with_one_warning(log):
    listing = Listing("file x", "file", Scrape())
    labels = {"target": "\ud800", "method": "m" * (MAX_LABEL_VALUE + 1)}
    for _ in range(2):
        (target,) = listing.targets([{"targets": ["a:1"], "labels": labels}])
        assert (target.name, target.method_label, target.labels) == ("a:1", "", ())
    assert [(entry["event"], entry["label"]) for entry in log] == [
        ("discovered_label_dropped", "target"),
        ("discovered_label_dropped", "method"),
    ]
    assert all(len(str(entry)) < 500 for entry in log)
