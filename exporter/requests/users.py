"""What the requests of each user say, where users are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from exporter.requests.findings import UserFindings
from exporter.requests.kept import Rows
from exporter.requests.summary import summary
from exporter.requests.sums import sums
from exporter.requests.windows import Costs, cost_of


async def user_findings(rows: Rows, label: Callable[[str], str], costs: Costs) -> list[UserFindings]:
    """Return what each user's requests say, by model; ``label`` says by which name a user goes."""
    places: dict[tuple[str, str], list[int]] = {}
    for place, (user, group) in enumerate(zip(rows.users, rows.groups, strict=True)):
        if user:
            places.setdefault((label(user), group.key.model_name), []).append(place)
    found = []
    for (user, model_name), own in sorted(places.items()):
        await asyncio.sleep(0)
        found.append(UserFindings(user, model_name, summary(sums(rows.at(own), cost_of(costs, model_name)))))
    return found
