"""Fixtures of the web stage: a state without targets, certificates and folders with a web configuration."""

import asyncio
import ssl
from types import SimpleNamespace

import bcrypt
import pytest
import trustme

from spec_decode_exporter.views.engine_view import EngineView
from tests.unit.web.pages import watched
from tests.unit.web.plain_state import plain_state


@pytest.fixture
def make_state():
    return plain_state


@pytest.fixture(scope="session")
def hashed():
    return lambda password, cost=4: bcrypt.hashpw(password, bcrypt.gensalt(cost)).decode()


@pytest.fixture(scope="session")
def authority():
    return trustme.CA()


@pytest.fixture
def folder(tmp_path, authority):
    """Return a folder with a certificate, its key, the authority, and a function that writes web.yml."""
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "server.key")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")

    def write(text):
        path = tmp_path / "web.yml"
        path.write_text(text)
        return path

    return SimpleNamespace(path=tmp_path, write=write)


@pytest.fixture
def trusting(authority):
    """Return a function that makes a client's context, with a certificate for any identities."""

    def make(*identities, issuer=None):
        context = ssl.create_default_context()
        authority.configure_trust(context)
        if identities:
            (issuer or authority).issue_cert(*identities).configure_cert(context)
        return context

    return make


@pytest.fixture(scope="session")
def watched_snapshot():
    """Return the snapshot of an engine that drafts, and of one that does not."""
    return asyncio.run(watched())


@pytest.fixture
def engines(watched_snapshot):
    return [EngineView(labels=labels, snapshot=engine) for labels, engine in watched_snapshot.engines]
