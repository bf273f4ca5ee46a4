"""Store of requests: count them by group, evaluate the windows. Time is a parameter: monotonic seconds."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final

from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.requests.group_totals import RequestGroup
from spec_decode_exporter.requests.prompt_lengths import prompt_findings
from spec_decode_exporter.requests.request_findings import (
    GroupKey,
    GroupTotals,
    PromptFindings,
    RequestFindings,
    UserFindings,
    WindowFindings,
)
from spec_decode_exporter.requests.request_labels import RequestLabels
from spec_decode_exporter.requests.request_record import Refusal, RequestRecord
from spec_decode_exporter.requests.stored_requests import StoredRequests
from spec_decode_exporter.requests.window_findings import (
    Costs,
    RequestInputs,
    user_findings,
    window_findings,
)

EVALUATION_SECONDS: Final = 5.0
"""Interval after which the windows are evaluated again."""
MAX_EAGER_REQUESTS: Final = 1000
"""With at most this many requests, each new one causes an evaluation; with more, only time does."""
FIRST_LONGEST_WINDOW: Final = 300.0
"""The longest window until the first evaluation."""


class RequestStore:
    """Requests by group, in windows and since the start."""

    def __init__(self, settings: RequestSettings, errors: Isolation | None = None) -> None:
        self._settings = settings
        self._errors = errors or Isolation()
        self._labels = RequestLabels(settings)
        self._stored = StoredRequests(settings.keep)
        self._groups: dict[GroupKey, RequestGroup] = {}
        self._refused: Counter[Refusal] = Counter()
        self._taken = 0
        self._longest = FIRST_LONGEST_WINDOW
        self._began: float | None = None
        self._lock = asyncio.Lock()
        self._version: tuple[object, ...] = ()
        self._windows: dict[str, WindowFindings] = {}
        self._by_user: list[UserFindings] = []
        self._by_prompt: list[PromptFindings] = []
        self._last = RequestFindings(enabled=settings.ingest)

    @property
    def last(self) -> RequestFindings:
        """The last result of ``findings``; empty before the first."""
        return self._last

    def take(self, request: RequestRecord, now: float) -> GroupKey:
        """Count a valid request that ended ``now``; return the key of its group."""
        self._begin(now)
        for key, remainder in self._labels.end_period(now, self._longest).items():
            self._fold(key, remainder)
        group = self._group(self._labels.key(request))
        group.totals.add(request)
        self._stored.add(request, group, now)
        self._taken += 1
        return group.key

    def resume(self, now: float) -> None:
        """Take requests again after a pause: windows that began before ``now`` are partial."""
        self._began = now
        self._version = ()

    def refuse(self, reason: Refusal, number: int = 1) -> None:
        """Count refused requests."""
        self._refused[reason] += number

    async def findings(
        self,
        windows: Sequence[float],
        now: float,
        costs: Costs,
    ) -> RequestFindings:
        """Return all findings; ``windows`` are one or more lengths in seconds.

        The evaluation yields to the event loop.
        """
        async with self._lock:
            self._begin(now)
            self._longest = max(windows)
            await self._evaluate(sorted(windows), now, RequestInputs(costs, self._errors))
            self._last = RequestFindings(
                enabled=self._settings.ingest,
                windows=self._windows,
                since_start=self._since_start(),
                users=self._by_user,
                prompts=self._by_prompt,
                taken=self._taken,
                refused=dict(self._refused),
                folded=self._labels.folded(),
            )
        return self._last

    async def _evaluate(self, windows: Sequence[float], now: float, inputs: RequestInputs) -> None:
        """Evaluate the windows, unless too little has changed."""
        is_eager = len(self._stored) <= MAX_EAGER_REQUESTS
        count = self._taken if is_eager else None
        version = (tuple(windows), count, int(now // EVALUATION_SECONDS))
        if version == self._version:
            return
        self._stored.remove_before(now - self._longest)
        rows = self._stored.since(now - self._longest)
        self._windows = await window_findings(rows, windows, now, self._whole_since(), inputs)
        self._by_user = await user_findings(rows, self._labels.user, inputs)
        self._by_prompt = await prompt_findings(rows, self._settings.prompt_tokens, inputs)
        self._version = version

    def _since_start(self) -> dict[GroupKey, GroupTotals]:
        """Return the totals of each group; one that only succeeds another has none yet."""
        groups = self._errors.each(
            "requests",
            self._groups.items(),
            lambda item: item[0].labels,
            lambda item: (item[0], item[1].totals.snapshot()),
        )
        return {key: group for key, group in groups if group.totals.requests}

    def _begin(self, now: float) -> None:
        if self._began is None:
            self._began = now

    def _whole_since(self) -> float:
        """Return the time from which on all requests are stored."""
        removed = self._stored.newest_removed
        began = self._began or 0.0
        return began if removed is None else max(began, removed)

    def _fold(self, key: GroupKey, remainder: GroupKey) -> None:
        """End a group that lost its labels: its stored requests count as ``remainder`` in the windows.

        Its totals end. If ``remainder`` continued them, its counters would jump.
        """
        group = self._groups.pop(key, None)
        if group is not None:
            group.successor = self._group(remainder)

    def _group(self, key: GroupKey) -> RequestGroup:
        return self._groups.get(key) or self._groups.setdefault(key, RequestGroup(key))
