"""What an exporter says of single requests, for the report of ``observe``: the servers do not tell it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import ValidationError
from yarl import URL

from spec_decode_exporter.cli.flags import ENVIRONMENT_PREFIX, Flags
from spec_decode_exporter.cli.observe_config import sections
from spec_decode_exporter.config.environment import Expanded
from spec_decode_exporter.config.http_settings import HttpSettings, Section
from spec_decode_exporter.config.source import FLAGS, Source
from spec_decode_exporter.config.values import Context
from spec_decode_exporter.core.bounded_json import TooManyValuesError, check_values
from spec_decode_exporter.scrape.http.client import Client
from spec_decode_exporter.scrape.http.credentials_check import credential_mistake
from spec_decode_exporter.scrape.poll_errors import PollError
from spec_decode_exporter.views.request_models import RequestsView

_PATH: Final = "api/v1/requests"
_TIMEOUT: Final = 10.0
_LARGEST: Final = 16 * 2**20
_MOST_VALUES: Final = 500_000

PASSWORD: Final = f"{ENVIRONMENT_PREFIX}REQUESTS_BASIC_AUTH_PASSWORD"
"""The environment variable that holds the password; a flag would show it to everybody."""

_SETTINGS: Final = {
    "requests_basic_auth_username": ("basic_auth", "username"),
    "requests_basic_auth_password_file": ("basic_auth", "password_file"),
    "requests_authorization_credentials_file": ("authorization", "credentials_file"),
    "requests_tls_config_ca_file": ("tls_config", "ca_file"),
}
"""Flags that stand for a key of how the exporter is asked."""


class _Flags(Section):
    """The flags' part that says how the exporter is asked."""

    requests: HttpSettings


class NotReadError(Exception):
    """An exporter that does not say it; the text says why."""


def exporter_url(text: str) -> str:
    """Return the address of what an exporter says of requests; ``http://`` need not be written.

    Raises:
        ArgumentTypeError: It is no URL of an exporter.
    """
    try:
        url = URL(text if "://" in text else f"http://{text}")
    except ValueError:
        url = URL()
    if url.user or url.password:
        raise argparse.ArgumentTypeError(
            "the URL holds a user or password; give them by --requests.basic-auth.username and …password-file"
        )
    if url.scheme not in {"http", "https"} or not url.host:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no exporter's URL: write one such as http://localhost:7732"
        )
    return str(url / _PATH)


def add_flags(flags: Flags) -> None:
    """Add the flags that say how the exporter is asked; those for the servers do not hold for it."""
    flags.one(
        "--requests.basic-auth.username", "NAME", "who asks that exporter, where its pages take a password"
    )
    flags.one("--requests.basic-auth.password-file", "FILE", "a file that holds that password")
    flags.one(
        "--requests.authorization.credentials-file", "FILE", "or a file that holds a bearer token for it"
    )
    flags.one("--requests.tls-config.ca-file", "FILE", "the authorities to trust where its URL is https")


def http_settings(arguments: argparse.Namespace, environ: Mapping[str, str]) -> HttpSettings:
    """Return how the exporter is asked.

    Raises:
        ConfigError: The flags say what cannot be used.
    """
    said = sections(arguments, _SETTINGS)
    password = environ.get(PASSWORD)
    if password and "password_file" not in said.get("basic_auth", ()):
        said.setdefault("basic_auth", {})["password"] = Expanded.of(password, f"${{{PASSWORD}}}")
    source = Source(FLAGS, data={"requests": said})
    settings = source.validated(_Flags, Context(Path())).requests
    mistake = credential_mistake(settings)
    if mistake is not None:
        source.complain(("requests",), mistake)
    source.refuse()
    return settings


async def read_requests(url: str, http: HttpSettings) -> RequestsView:
    """Ask an exporter what the requests say.

    Raises:
        NotReadError: It does not answer, or in another way than this version does.
    """
    client = Client(http, timeout=_TIMEOUT, max_body=_LARGEST)
    try:
        answer = await client.get(url)
        check_values(answer.body, _MOST_VALUES)
        return RequestsView.model_validate_json(answer.body)
    except PollError as error:
        raise NotReadError(f"{url}: {error}") from None
    except (TooManyValuesError, ValidationError):
        raise NotReadError(f"{url}: the answer is not what this version of the exporter says") from None
    finally:
        await client.close()
