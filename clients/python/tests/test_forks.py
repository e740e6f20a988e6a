"""Forks by C code, as in uWSGI, which call no hooks of Python."""

import asyncio
import ctypes
import gc
import json
import os
import unittest
import warnings
from typing import Any, Callable

from nodelease import AsyncIdGenerator, IdGenerator

import test_calls


def child(make: Callable[[], list[int]]) -> list[int]:
    """Return what a child of a fork by C code makes."""
    read, write = os.pipe()
    pid = ctypes.PyDLL(None).fork()
    if pid == 0:
        try:
            warnings.simplefilter("ignore", ResourceWarning)  # the connection is the parent's
            os.write(write, json.dumps(make()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        made = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(made or "[]")  # type: ignore[no-any-return]


class Forks(unittest.TestCase):
    sidecar: test_calls.Sidecar
    serve = test_calls.Calls.serve

    def test_a_child_of_c_code_has_no_block(self) -> None:
        with IdGenerator(self.serve()) as ids:
            made = [ids.next()]
            name = ids._blocks._name
            with ids._lock:  # a call of another thread
                made += child(lambda: [ids.next(), *ids.batch(2), int(ids._blocks._name == name)])
            self.assertEqual(made.pop(), 0, "parent and child count as one client")
            made += [ids.next(), *ids.batch(2)]
        self.assertEqual(len(set(made)), 7)

    def test_a_child_of_c_code_has_no_block_with_tasks(self) -> None:
        async def some() -> list[int]:
            return [await ids.next(), *await ids.batch(2)]

        ids: Any = AsyncIdGenerator(self.serve())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # a loop that has ended cannot close its connection
            made = [asyncio.run(ids.next()), *child(lambda: asyncio.run(some())), *asyncio.run(some())]
            asyncio.run(ids.close())
            del ids, some
            gc.collect()
        self.assertEqual(len(set(made)), 7)


if __name__ == "__main__":
    unittest.main()
