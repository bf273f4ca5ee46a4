from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.core.tasks import cancel
from spec_decode_exporter.web.server.fair_queue import QueueFullError
from spec_decode_exporter.web.server.fair_semaphore import FairSemaphore
from tests.conftest import settle


async def asking(semaphore, clients):
    """Request a permit for each client; return the tasks, and the clients in the order of their permits."""
    granted = []

    async def ask(client):
        await semaphore.acquire(client)
        granted.append(client)

    tasks = [asyncio.create_task(ask(client)) for client in clients]
    await settle()
    return tasks, granted


async def test_a_full_queue_rejects_the_client_with_most_requests_in_it():
    semaphore = FairSemaphore(permits=1, permits_per_client=1, max_waiting=4)
    tasks, _ = await asking(semaphore, ["a"] * 5)
    with pytest.raises(QueueFullError):
        await semaphore.acquire("a")
    others, granted = await asking(semaphore, ["b"])
    assert isinstance(tasks[-1].exception(), QueueFullError)
    semaphore.release("a")
    await settle()
    semaphore.release("a")
    await settle()
    assert granted == ["b"]
    await cancel([*tasks, *others])


CLIENTS = st.sampled_from("abc")
STEPS = st.lists(st.tuples(st.sampled_from(["ask", "return", "cancel"]), CLIENTS), max_size=60)


@given(STEPS, st.integers(1, 4), st.integers(1, 3), st.integers(0, 5))
def test_no_permit_is_lost_or_granted_twice(steps, permits, per_client, waiting):
    async def scenario():
        semaphore, tasks, held = FairSemaphore(permits, per_client, waiting), [], []

        async def ask(client):
            await semaphore.acquire(client)
            held.append(client)

        for step, client in steps:
            if step == "ask":
                tasks.append(asyncio.create_task(ask(client)))
            elif step == "return" and client in held:
                held.remove(client)
                semaphore.release(client)
            elif step == "cancel":
                await cancel([task for task in tasks if not task.done()][:1])
            await settle(3)
            assert len(held) + semaphore.free == permits
            assert all(held.count(each) <= per_client for each in held)
            assert semaphore.waiting <= waiting
            idle = [task for task in tasks if not task.done()]
            assert len(idle) == semaphore.waiting
        await cancel(tasks)
        for client in held:
            semaphore.release(client)
        assert (semaphore.free, semaphore.waiting) == (permits, 0)
        for task in tasks:
            assert task.cancelled() or isinstance(task.exception(), QueueFullError | None)

    asyncio.run(scenario())
