"""The chart is rendered by Helm's own engine, in this process. `make chart` installs what that needs."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from helm import chart_files

NEEDED = ("helm_python", "kubernetes_validate")


def pytest_collection_modifyitems(items):
    missing = [name for name in NEEDED if find_spec(name) is None]
    why = f"NOT TESTED: the chart's tests need {', '.join(missing)}; `make chart` installs them"
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(600))
            if missing:
                item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session", autouse=True)
def _chart_files():
    """Make the chart complete, as its package is."""
    chart_files.write_copies()
