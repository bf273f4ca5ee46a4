import asyncio

from tests.conftest import what_is_left


async def test_a_leaked_task_is_found():
    task = asyncio.create_task(asyncio.Event().wait())
    assert "Event.wait" in " ".join(what_is_left())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert what_is_left() == []


async def test_a_leaked_connection_is_found_on_both_sides(until):
    accepted = []
    server = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    await until(lambda: accepted)
    server.close()
    assert len([one for one in what_is_left() if "_SelectorSocketTransport" in one]) == 2
    writer.transport.abort()
    accepted[0].transport.abort()
    assert what_is_left() == []
