"""Access to the Kubernetes API: its URL, credentials, and the namespace of this pod."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spec_decode_exporter.config.http_settings import Authorization, HttpSettings, TlsConfig
from spec_decode_exporter.config.target_settings import NAMESPACE
from spec_decode_exporter.core.files import read_bounded
from spec_decode_exporter.core.urls import host_and_port
from spec_decode_exporter.discovery.kubernetes.api_objects import (
    ApiError,
)

if TYPE_CHECKING:
    from spec_decode_exporter.config.target_settings import KubernetesDiscovery

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder of a pod's credentials. Kubernetes replaces the token in it before the old one expires."""
_MAX_NAMESPACE: Final = 1024


@dataclass(frozen=True, slots=True)
class Access:
    """URL of the API, with credentials and TLS settings."""

    url: str
    http: HttpSettings

    @classmethod
    def of(cls, settings: KubernetesDiscovery, environ: Mapping[str, str] = os.environ) -> Access:
        """Return the configured access; by default, that of this pod.

        Raises:
            ApiError: The process does not run in a pod.
        """
        if settings.api_server is not None:
            return cls(settings.api_server.rstrip("/"), settings.http)
        host, port = (environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
        if not host or not port:
            raise ApiError(
                "KUBERNETES_SERVICE_HOST is not set, so this is no pod of a cluster; configure `api_server`"
            )
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            host_and_port(place)
        except ValueError as error:
            raise ApiError(f"KUBERNETES_SERVICE_HOST and _PORT {error}; configure `api_server`") from None
        return cls(f"https://{place}", _as_the_pod(settings.http))


def _as_the_pod(http: HttpSettings) -> HttpSettings:
    """Add the credentials of the pod's service account if none are configured."""
    added: dict[str, object] = {}
    if http.authorization is None and http.basic_auth is None:
        added["authorization"] = Authorization(credentials_file=SERVICE_ACCOUNT / "token")
    if http.tls_config is None:
        added["tls_config"] = TlsConfig(ca_file=SERVICE_ACCOUNT / "ca.crt")
    return http.model_copy(update=added)


def own_namespace() -> str:
    """Return the namespace of this pod.

    Raises:
        ApiError: The process does not run in a pod with a service account's token.
    """
    path = SERVICE_ACCOUNT / "namespace"
    try:
        namespace = read_bounded(path, _MAX_NAMESPACE).decode("ascii").strip()
    except OSError as error:
        reason = error.strerror or error
        raise ApiError(f"{path}: cannot be read: {reason}; configure `namespaces`") from None
    except UnicodeDecodeError:
        namespace = ""
    if not re.fullmatch(NAMESPACE, namespace):
        raise ApiError(f"{path}: names no namespace; configure `namespaces`")
    return namespace
