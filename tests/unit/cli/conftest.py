"""The program as a user calls it, in the process of the tests."""

import os
import resource
import sys

import pytest

from spec_decode_exporter.cli.flags import ENVIRONMENT_PREFIX
from spec_decode_exporter.cli.main import main


@pytest.fixture
def program(capsys, monkeypatch):
    monkeypatch.setattr(os, "_exit", sys.exit)
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    for name in [name for name in os.environ if name.startswith(ENVIRONMENT_PREFIX)]:
        monkeypatch.delenv(name)

    def program(*words):
        monkeypatch.setattr("sys.argv", ["spec-decode-exporter", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capsys.readouterr()

    return program
