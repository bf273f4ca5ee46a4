"""What the requests of each user say, where users are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.requests.request_findings import UserFindings
from spec_decode_exporter.requests.request_summary import summary
from spec_decode_exporter.requests.request_sums import together
from spec_decode_exporter.requests.slices import places_by, sums_at
from spec_decode_exporter.requests.stored_requests import RequestRows
from spec_decode_exporter.requests.window_findings import Costs, cost_of


async def user_findings(
    rows: RequestRows, label: Callable[[str], str], costs: Costs, errors: InternalErrors
) -> list[UserFindings]:
    """Return what each user's requests say, by model; ``label`` says by which name a user goes."""
    owners = (
        (label(user), group.key.model_name) if user else None
        for user, group in zip(rows.users, rows.groups, strict=True)
    )
    found = []
    for (user, model_name), places in sorted((await places_by(owners)).items()):
        item = {"model_name": model_name, "user": user}
        of_user = partial(_of_user, rows, places, user, model_name, costs)
        found.append(await errors.attempt_async("requests", of_user, item))
    return [each for each in found if each is not None]


async def _of_user(
    rows: RequestRows, places: Sequence[int], user: str, model_name: str, costs: Costs
) -> UserFindings:
    parts = await sums_at(rows, places, cost_of(costs, model_name))
    return UserFindings(user, model_name, summary(together(parts)))
