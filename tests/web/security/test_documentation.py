"""The files in docs/reference/web.md are valid, and its table lists every key."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest

from spec_decode_exporter.web.security.load_web_config import read_web_config
from spec_decode_exporter.web.security.schema import RateLimit, TlsServer, WebSettings

TEXT = (Path(__file__).parents[3] / "docs" / "reference" / "web.md").read_text()
BLOCKS = [dedent(block) for block in re.findall(r"^ *```yaml\n(.*?)^ *```", TEXT, re.MULTILINE | re.DOTALL)]


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.startswith("tls_server_config")])
def test_the_files_of_the_document_are_valid(folder, block):
    names = {"server.crt": "server.pem", "ca.crt": "authority.pem"}
    for shown, there in names.items():
        block = block.replace(shown, there)
    assert read_web_config(folder.write(block)).context is not None


def test_the_table_lists_every_key():
    rows = [line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| `")]
    named = {word.split(".")[-1].strip("…") for row in rows for word in re.findall(r"`([^`]*)`", row)}
    keys = {key for model in (TlsServer, RateLimit) for key in model.model_fields}
    assert keys <= named
    assert "basic_auth_users" in named
    assert len(WebSettings.model_fields) == 3
