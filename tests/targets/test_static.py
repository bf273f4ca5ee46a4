from __future__ import annotations

from exporter.config.schema import Config, HeaderValues, HttpSettings, TargetSettings
from exporter.targets.static import static_targets
from exporter.targets.target import Target


def test_without_configuration_the_vllm_next_door_is_watched():
    assert static_targets(Config()) == (Target("http://localhost:8000/metrics", "localhost:8000"),)


def test_a_target_has_its_name_labels_and_keys():
    headers = {"X-A": HeaderValues(values=("b",))}
    settings = TargetSettings(
        url="http://a:1", name="chat", labels={"z": "1", "b": "2"}, http_headers=headers
    )
    [target] = static_targets(Config(targets=(settings,)))
    assert target == Target(
        "http://a:1/metrics", "chat", (("b", "2"), ("z", "1")), HttpSettings(http_headers=headers), "static"
    )
