"""Parsers of user files: the configuration and the web configuration."""

from __future__ import annotations

from spec_decode_exporter.app.reload import load_config
from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.web.security import WebSettings, read_web_config
from tests.robustness.fuzz.harness import Harness, file_of, sane

SECRET = "hunter2"
MAX_ERROR = 200_000
"""Maximum characters of an error: a configuration reports all mistakes at once."""


def check_config(data: bytes) -> None:
    """Check a configuration; no mistake shows a value from the environment."""
    _refused_plainly(lambda: load_config(file_of(data, "exporter.yml"), environ={"A": SECRET}))


def check_web_config(data: bytes) -> None:
    """Check a web configuration."""
    _refused_plainly(lambda: read_web_config(file_of(data, "web.yml")))


def _refused_plainly(read) -> None:
    try:
        read()
    except ConfigError as error:
        sane(error, MAX_ERROR)
        _keeps_secrets(error)


def _keeps_secrets(error: ConfigError) -> None:
    assert SECRET not in str(error)
    assert error.problems


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
        *_YAML, *_keys(WebSettings), "cert_file: ", "client_auth_type: ",
        "interval: ", "burst: ", "TLS12",
        "RequireAndVerifyClientCert", "X-Frame-Options: ", "$2y$10$" + "a" * 53,
    ),
)  # fmt: skip
