"""Pod Security Standards, level "restricted": what a namespace that enforces it would say of a pod.

After https://kubernetes.io/docs/concepts/security/pod-security-standards/, the controls that a Linux pod can break.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


def violations(spec: dict[str, Any]) -> list[str]:
    """Return what is not allowed in a pod of this spec."""
    containers = [one for key in ("initContainers", "containers") for one in spec.get(key, ())]
    inherited = spec.get("securityContext", {})
    return [
        *_of_pod(spec, inherited),
        *(said for one in containers for said in _of_container(one, inherited)),
    ]


def _of_pod(spec: dict[str, Any], security: dict[str, Any]) -> Iterator[str]:
    yield from (key for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key))
    yield from (
        f"{key} of the pod" for key in ("seLinuxOptions", "sysctls", "windowsOptions") if security.get(key)
    )
    if security.get("runAsUser") == 0:
        yield "runAsUser 0 of the pod"
    for volume in spec.get("volumes", ()):
        yield from (f"volume {kind}" for kind in volume.keys() - {"name"} - VOLUMES)


def _of_container(container: dict[str, Any], inherited: dict[str, Any]) -> Iterator[str]:
    own = container.get("securityContext", {})
    both = {**inherited, **own}
    capabilities = own.get("capabilities", {})
    found = {
        "privileged": own.get("privileged", False),
        "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is not False,
        "runAsNonRoot": both.get("runAsNonRoot") is not True,
        "runAsUser 0": both.get("runAsUser") == 0,
        "seccompProfile": both.get("seccompProfile", {}).get("type") not in {"RuntimeDefault", "Localhost"},
        "capabilities.drop": "ALL" not in capabilities.get("drop", ()),
        "capabilities.add": bool(set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}),
        "procMount": own.get("procMount", "Default") != "Default",
        "hostPort": any(port.get("hostPort") for port in container.get("ports", ())),
        "lifecycle or probe with a host": any(
            "host" in container.get(probe, {}).get("httpGet", {})
            for probe in ("livenessProbe", "readinessProbe", "startupProbe")
        ),
    }
    yield from (f"{name} of {container['name']}" for name, broken in found.items() if broken)
