"""Text of the guide's pages about Kubernetes: deploying, and installing as a sidecar."""

import re

import yaml

from helm.chart_files import ROOT

TEXT = "\n".join(
    (ROOT / "docs/guide" / name).read_text(encoding="utf-8")
    for name in ("kubernetes.md", "kubernetes-sidecar.md")
)


def after(mark):
    """Return the snippet of YAML after a mark."""
    return yaml.safe_load(re.search(rf"<!-- {mark} -->\n```yaml\n(.*?)```", TEXT, re.DOTALL)[1])
