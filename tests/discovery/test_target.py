from __future__ import annotations

from spec_decode_exporter.discovery.target import address


def test_an_address_never_holds_the_user():
    assert address("https://user:hunter2@a/metrics?key=hunter2") == "a:443"
