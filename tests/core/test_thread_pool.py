"""Thread pools: work of one kind that hangs delays no other kind."""

from __future__ import annotations

import asyncio
import contextvars
import threading

from spec_decode_exporter.core.thread_pool import PASSWORDS, STATE, TARGET_LISTS, ThreadPool

CEILING = 60.0


async def test_lists_that_are_long_delay_neither_a_password_nor_the_state():
    read, started = threading.Event(), threading.Event()

    def read_list():
        started.set()
        assert read.wait(CEILING)
        return "targets"

    lists = [asyncio.ensure_future(TARGET_LISTS.run(read_list)) for _ in range(12)]
    try:
        await asyncio.to_thread(started.wait, CEILING)
        assert await asyncio.wait_for(PASSWORDS.run(lambda: "right"), CEILING) == "right"
        assert await asyncio.wait_for(STATE.run(lambda: "saved"), CEILING) == "saved"
        assert not any(each.done() for each in lists)
    finally:
        read.set()
    assert await asyncio.gather(*lists) == ["targets"] * 12


async def test_a_function_gets_its_arguments_and_the_context_of_its_caller():
    variable = contextvars.ContextVar("variable")
    variable.set("a")
    assert await ThreadPool("test", 1).run(lambda x, y: (variable.get(), x, y), 1, y=2) == ("a", 1, 2)
