"""Text of the guide's pages about Kubernetes: deploying, and installing as a sidecar."""

from __future__ import annotations

from helm.chart_files import ROOT

TEXT = "\n".join(
    (ROOT / "docs/guide" / name).read_text(encoding="utf-8")
    for name in ("kubernetes.md", "kubernetes-sidecar.md")
)
