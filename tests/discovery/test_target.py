from __future__ import annotations

from spec_decode_exporter.config.schema import HttpSettings
from spec_decode_exporter.discovery.target import Target, address


def test_a_target_is_the_same_while_its_name_and_address_are():
    target = Target("http://a:1/metrics", "a")
    assert target.key == Target("http://a:1/metrics", "a", (("x", "y"),)).key == ("a", "http://a:1/metrics")
    assert target.http == HttpSettings()


def test_an_address_never_holds_the_user():
    assert address("https://user:hunter2@a/metrics?key=hunter2") == "a:443"
