"""Values of expressions, by promtool."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest


@pytest.fixture
def against(tmp_path):
    """A function that returns what promtool has against a value of an expression, None for no series."""

    def against(expr, series, expected):
        test = {
            "input_series": [{"series": name, "values": str(value)} for name, value in series.items()],
            "promql_expr_test": [{"expr": expr, "exp_samples": [expected] if expected else []}],
        }
        path = tmp_path / "test.yml"
        path.write_text(json.dumps({"tests": [test]}), encoding="utf-8")
        run = subprocess.run(
            [shutil.which("promtool"), "test", "rules", path], capture_output=True, text=True, check=False
        )
        return "" if run.returncode == 0 else run.stdout + run.stderr

    return against
