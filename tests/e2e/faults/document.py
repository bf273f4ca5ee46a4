"""The catalogue as the table of docs/maintainers/reliability.md: ``python -m tests.e2e.faults.document`` prints it."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from tests.e2e.faults.catalogue import READ, Fault, catalogue


def table(faults: Mapping[str, Fault]) -> str:
    """Return a Markdown table of what a server does and what is said of it."""
    rows = [f"| {fault.does} | {_outcome(fault)} |" for fault in faults.values()]
    return "\n".join(["| the server | the poll |", "|---|---|", *rows])


def _outcome(fault: Fault) -> str:
    reasons = sorted(fault.outcome - {READ})
    if READ in fault.outcome:
        return "is good" + (f"; the log says `{fault.says}`" if fault.says else "")
    return "fails: " + " or ".join(f"`{reason}`" for reason in reasons)


if __name__ == "__main__":
    sys.stdout.write(table(catalogue()) + "\n")
