"""Fixtures of the web stage: certificates beside a web configuration, and engines that were watched."""

import asyncio

import pytest
import trustme

from spec_decode_exporter.views.engine_view import EngineView
from tests.unit.web.pages import watched


@pytest.fixture(scope="session")
def authority():
    return trustme.CA()


@pytest.fixture
def web_file(tmp_path, authority):
    """Return the path of a web configuration: beside it are a certificate, its key, and the authority."""
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "server.key")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    return tmp_path / "web.yml"


@pytest.fixture(scope="session")
def watched_snapshot():
    """Return the snapshot of an engine that drafts, and of one that does not."""
    return asyncio.run(watched())


@pytest.fixture
def engines(watched_snapshot):
    return [EngineView(labels=labels, snapshot=engine) for labels, engine in watched_snapshot.engines]
