"""Files that people write: the configuration, the web configuration, lists of targets."""

from __future__ import annotations

from structlog.testing import capture_logs

from spec_decode_exporter.app.load_config import load_config
from spec_decode_exporter.config.errors import ConfigError
from spec_decode_exporter.config.schema import Config, Scrape
from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.discovery.file_sd import FileDiscovery
from spec_decode_exporter.discovery.group_reader import json_groups
from spec_decode_exporter.discovery.protocol import DiscoveryError
from spec_decode_exporter.discovery.target_groups import Listing
from spec_decode_exporter.web.security.load_web_config import read_web_config
from spec_decode_exporter.web.security.schema import WebSettings
from tests.fuzz.harness import Harness, file_of, sane

SECRET = "hunter2"
MOST_SAID = 200_000
"""Characters: a configuration has all its mistakes told at once."""


def check_config(data: bytes) -> None:
    """A configuration, or mistakes of which none shows what came from the environment."""
    _refused_plainly(lambda: load_config(file_of(data, "exporter.yml"), environ={"A": SECRET}))


def check_web_config(data: bytes) -> None:
    """A web configuration or its mistakes."""
    _refused_plainly(lambda: read_web_config(file_of(data, "web.yml")))


def _refused_plainly(read) -> None:
    try:
        read()
    except ConfigError as error:
        sane(error, MOST_SAID)
        _keeps_secrets(error)


def _keeps_secrets(error: ConfigError) -> None:
    assert SECRET not in str(error)
    assert error.problems


def check_yaml_targets(data: bytes) -> None:
    """Targets of a file, read as the discovery reads it."""
    path = file_of(data, "targets.yml")
    _listed(lambda: FileDiscovery(path, Scrape())._look())


def check_json_targets(data: bytes) -> None:
    """Targets of JSON, which a file or a server gives."""
    _listed(lambda: finish(Listing("any", "http", Scrape()).read(json_groups(data))))


def _listed(read) -> None:
    with capture_logs() as logged:
        try:
            targets = read()
        except DiscoveryError as error:
            sane(error)
            targets = ()
    assert all(len(str(line)) < 4000 for line in logged)
    for target in targets:
        target.url.encode("ascii")
        assert target.name
        for name, value in target.labels:
            assert name.isascii()
            value.encode()


_YAML = ("&a ", "*a", "<<: ", "!!", "${A}", "$$", "|\n", ">-\n", "---\n", "\t", "? ", '"\\', "~", "- ", ": ")


def _keys(model) -> tuple[str, ...]:
    return tuple(f"{name}: " for name in model.model_fields)


CONFIG = Harness(
    check_config,
    (
        *_YAML, *_keys(Config), "interval: ", "url: ", "labels: ", "files: ", "http: ", "dns: ", "names: ", "type: ",
        "kubernetes: ", "ports: ", "shard: ", "authorization: ", "credentials: ", "tls_config: ", "http_headers: ",
        "speculative: ", "loads: ", "file: ", "baseline: ", "variants: ", "http://a", "1s", "9" * 30, "['5m']",
    ),
)  # fmt: skip
WEB_CONFIG = Harness(
    check_web_config,
    (
        *_YAML, *_keys(WebSettings), "cert: ", "key: ", "cert_file: ", "client_ca: ", "client_auth_type: ",
        "cipher_suites: ", "curve_preferences: ", "headers: ", "interval: ", "burst: ", "http2: ", "TLS12",
        "RequireAndVerifyClientCert", "X-Frame-Options: ", "$2y$10$" + "a" * 53,
    ),
)  # fmt: skip
_GROUPS = (
    "targets", "labels", "target", "method", "__scheme__", "__metrics_path__", "__param_x", "host:8000", "[::1]:80",
    "https", "/metrics", "a-b", "le",
)  # fmt: skip
YAML_TARGETS = Harness(check_yaml_targets, (*_YAML, *_GROUPS))
JSON_TARGETS = Harness(check_json_targets, _GROUPS, json=True)
