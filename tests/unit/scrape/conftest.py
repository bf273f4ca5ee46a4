"""Certificates for the tests of TLS."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme


@dataclass(frozen=True)
class Certificates:
    """Certificate authority, its certificate for `localhost` and 127.0.0.1, and an unrelated key."""

    authority: Path
    certificate: Path
    key: Path
    other_key: Path


@pytest.fixture(scope="session")
def certificates(tmp_path_factory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    found = Certificates(
        *(folder / name for name in ("ca.pem", "localhost.pem", "localhost.key", "other.key"))
    )
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(found.authority)
    issued.cert_chain_pems[0].write_to_path(found.certificate)
    issued.private_key_pem.write_to_path(found.key)
    authority.issue_cert("localhost").private_key_pem.write_to_path(found.other_key)
    return found
