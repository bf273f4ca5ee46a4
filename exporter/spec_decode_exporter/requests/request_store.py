"""Takes requests one by one and says what they say together. Time is a parameter: monotonic, in seconds."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.requests.request import Refusal, Request
from spec_decode_exporter.requests.request_findings import (
    GroupKey,
    GroupTotals,
    RequestFindings,
    UserFindings,
    WindowFindings,
)
from spec_decode_exporter.requests.request_group import RequestGroup
from spec_decode_exporter.requests.request_names import Names
from spec_decode_exporter.requests.stored_requests import StoredRequests
from spec_decode_exporter.requests.user_findings import user_findings
from spec_decode_exporter.requests.window_findings import Costs, window_findings

ROUND_SECONDS = 5.0
"""The windows are looked at anew when time has gone on by so much."""
FEW_REQUESTS = 1000
"""So many are looked at anew with every request that comes; more only when time has gone on."""
FIRST_LONGEST = 300.0
"""The longest window until somebody asks for one."""


class RequestStore:
    """What single requests say of their speculation."""

    def __init__(self, settings: RequestSettings, errors: InternalErrors | None = None) -> None:
        self._settings = settings
        self._errors = errors or InternalErrors()
        self._names = Names(settings)
        self._kept = StoredRequests(settings.keep)
        self._groups: dict[GroupKey, RequestGroup] = {}
        self._refused: Counter[Refusal] = Counter()
        self._taken = 0
        self._longest = FIRST_LONGEST
        self._began: float | None = None
        self._looking = asyncio.Lock()
        self._seen: tuple[object, ...] = ()
        self._windows: dict[str, WindowFindings] = {}
        self._by_user: list[UserFindings] = []
        self._last = RequestFindings(enabled=settings.ingest)

    @property
    def last(self) -> RequestFindings:
        """What ``findings`` said last; nothing before that."""
        return self._last

    def take(self, request: Request, now: float) -> None:
        """Count a request that ended ``now``; its numbers are possible, and below 2^63."""
        self._begin(now)
        for lost, rest in self._names.turn(now, self._longest).items():
            self._fold(lost, rest)
        group = self._group(self._names.key(request))
        group.since_start.add(request)
        self._kept.add(request, group, now)
        self._taken += 1

    def go_on(self, now: float) -> None:
        """Take requests again: until ``now`` none were taken, so windows that began before lack some."""
        self._began = now
        self._seen = ()

    def refuse(self, reason: Refusal, number: int = 1) -> None:
        """Count requests that are not taken."""
        self._refused[reason] += number

    async def findings(self, windows: Sequence[float], now: float, costs: Costs) -> RequestFindings:
        """Return everything that the requests say; ``windows`` are lengths, one or more.

        ``costs`` says what drafting costs a model at a target, or anywhere where the target is empty. What
        takes long goes on in slices, between which others have their turn.
        """
        async with self._looking:
            self._begin(now)
            self._longest = max(windows)
            await self._look(sorted(windows), now, costs)
            self._last = RequestFindings(
                enabled=self._settings.ingest,
                windows=self._windows,
                since_start=self._since_start(),
                users=self._by_user,
                taken=self._taken,
                refused=dict(self._refused),
                folded=self._names.folded(),
            )
        return self._last

    async def _look(self, windows: Sequence[float], now: float, costs: Costs) -> None:
        """Look at the windows anew, unless too little has changed."""
        few = len(self._kept) <= FEW_REQUESTS
        seen = (tuple(windows), self._taken if few else None, int(now // ROUND_SECONDS))
        if seen == self._seen:
            return
        self._kept.forget(now - self._longest)
        rows = self._kept.since(now - self._longest)
        self._windows = await window_findings(rows, windows, now, costs, self._whole_since(), self._errors)
        self._by_user = await user_findings(rows, self._names.user, costs, self._errors)
        self._seen = seen

    def _since_start(self) -> dict[GroupKey, GroupTotals]:
        """Return the counters of each group; one that is only heir to another has none yet."""
        every = self._errors.each(
            "requests",
            self._groups.items(),
            lambda item: item[0].labels,
            lambda item: (item[0], item[1].since_start.totals()),
        )
        return {key: totals for key, totals in every if totals.totals.requests}

    def _begin(self, now: float) -> None:
        if self._began is None:
            self._began = now

    def _whole_since(self) -> float:
        """Return since when every request is kept that was taken."""
        lost = self._kept.newest_lost
        began = self._began or 0.0
        return began if lost is None else max(began, lost)

    def _fold(self, lost: GroupKey, rest: GroupKey) -> None:
        """Let a group that lost its name end: what is kept of it counts as ``rest`` in the windows.

        Its counters end, rather than go over to ``rest``: that would look like so many requests at once.
        """
        group = self._groups.pop(lost, None)
        if group is not None:
            group.heir = self._group(rest)

    def _group(self, key: GroupKey) -> RequestGroup:
        return self._groups.get(key) or self._groups.setdefault(key, RequestGroup(key))
