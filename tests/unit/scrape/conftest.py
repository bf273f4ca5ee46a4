"""Certificates for the tests of TLS."""

import ssl
from types import SimpleNamespace

import pytest
import trustme


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """Return files: an authority, its certificate for `localhost` and 127.0.0.1 with the key, and another's key.

    ``server_context`` serves that certificate.
    """
    names = {
        "authority": "ca.pem",
        "certificate": "localhost.pem",
        "key": "localhost.key",
        "other_key": "other.key",
    }
    folder = tmp_path_factory.mktemp("certificates")
    found = SimpleNamespace(**{name: folder / file for name, file in names.items()})
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(found.authority)
    issued.cert_chain_pems[0].write_to_path(found.certificate)
    issued.private_key_pem.write_to_path(found.key)
    authority.issue_cert("localhost").private_key_pem.write_to_path(found.other_key)
    found.server_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    found.server_context.load_cert_chain(found.certificate, found.key)
    return found
