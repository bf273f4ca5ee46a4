"""Request findings of an exporter, for the report of ``observe``: servers do not export them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import ValidationError
from yarl import URL

from spec_decode_exporter.cli.flags import ENVIRONMENT_PREFIX, Flags
from spec_decode_exporter.cli.setting_flags import SettingFlag, add_setting_flags, sections
from spec_decode_exporter.config.environment import Expanded
from spec_decode_exporter.config.http_settings import HttpSettings, Section
from spec_decode_exporter.config.source import FLAGS, Source
from spec_decode_exporter.config.values import Context
from spec_decode_exporter.core.bounded_json import TooManyValuesError, check_values
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.scrape.http.client import Client
from spec_decode_exporter.scrape.http.credentials_check import credential_mistake
from spec_decode_exporter.scrape.poll_errors import PollError
from spec_decode_exporter.views.request_models import RequestsView

_PATH: Final = "api/v1/requests"
_TIMEOUT: Final = 10.0
_MAX_BODY: Final = 16 * 2**20
_MAX_VALUES: Final = 500_000

PASSWORD: Final = f"{ENVIRONMENT_PREFIX}REQUESTS_BASIC_AUTH_PASSWORD"
"""The environment variable of the password: a flag would be visible to every user of the machine."""

_FLAGS: Final = (
    SettingFlag(
        "--requests.basic-auth.username", "NAME", "user name for that exporter", "basic_auth.username"
    ),
    SettingFlag(
        "--requests.basic-auth.password-file", "FILE", "a file with its password", "basic_auth.password_file"
    ),
    SettingFlag(
        "--requests.authorization.credentials-file",
        "FILE",
        "or a file with a bearer token for it",
        "authorization.credentials_file",
    ),
    SettingFlag(
        "--requests.tls-config.ca-file",
        "FILE",
        "certificate authorities to trust if its URL is https",
        "tls_config.ca_file",
    ),
)


class _RequestsSection(Section):
    """The flags as a configuration, so that a mistake has a path."""

    requests: HttpSettings


class NotReadError(ExporterError):
    """An exporter did not return its request findings; the text is the reason."""


def exporter_url(text: str) -> str:
    """Return the URL of an exporter's request findings; ``http://`` may be omitted.

    Raises:
        ArgumentTypeError: It is not the URL of an exporter.
    """
    try:
        url = URL(text if "://" in text else f"http://{text}")
    except ValueError:
        url = URL()
    if url.user or url.password:
        raise argparse.ArgumentTypeError(
            "the URL holds a user or password; use --requests.basic-auth.username and …password-file"
        )
    if url.scheme not in {"http", "https"} or not url.host:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an exporter's URL: write one such as http://localhost:7732"
        )
    return str(url / _PATH)


def add_flags(flags: Flags) -> None:
    """Add the credentials for the exporter; those for the servers are not sent to it."""
    add_setting_flags(flags, _FLAGS)


def http_settings(arguments: argparse.Namespace, environ: Mapping[str, str]) -> HttpSettings:
    """Return the HTTP settings for the exporter.

    Raises:
        ConfigError: The flags cannot be used.
    """
    settings = sections(arguments, _FLAGS)
    password = environ.get(PASSWORD)
    if password and "password_file" not in settings.get("basic_auth", ()):
        settings.setdefault("basic_auth", {})["password"] = Expanded.of(password, f"${{{PASSWORD}}}")
    source = Source(FLAGS, data={"requests": settings})
    http = source.validated(_RequestsSection, Context(Path())).requests
    mistake = credential_mistake(http)
    if mistake is not None:
        source.add_problem(("requests",), mistake)
    source.refuse()
    return http


async def read_requests(url: str, http: HttpSettings) -> RequestsView:
    """Request the findings of an exporter.

    Raises:
        NotReadError: The exporter does not answer, or its format is that of another version.
    """
    client = Client(http, timeout=_TIMEOUT, max_body=_MAX_BODY)
    try:
        response = await client.get(url)
        check_values(response.body, _MAX_VALUES)
        return RequestsView.model_validate_json(response.body)
    except PollError as error:
        raise NotReadError(f"{url}: {error}") from None
    except (TooManyValuesError, ValidationError):
        raise NotReadError(f"{url}: the response is not in the format of this version") from None
    finally:
        await client.close()
