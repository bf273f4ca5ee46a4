"""What the requests of each user say, where users are kept."""

from __future__ import annotations

from collections.abc import Callable

from exporter.requests.findings import UserFindings
from exporter.requests.kept import Rows
from exporter.requests.slices import places_by, sums_at
from exporter.requests.summary import summary
from exporter.requests.sums import together
from exporter.requests.windows import Costs, cost_of


async def user_findings(rows: Rows, label: Callable[[str], str], costs: Costs) -> list[UserFindings]:
    """Return what each user's requests say, by model; ``label`` says by which name a user goes."""
    owners = (
        (label(user), group.key.model_name) if user else None
        for user, group in zip(rows.users, rows.groups, strict=True)
    )
    found = []
    for (user, model_name), places in sorted((await places_by(owners)).items()):
        parts = await sums_at(rows, places, cost_of(costs, model_name))
        found.append(UserFindings(user, model_name, summary(together(parts))))
    return found
