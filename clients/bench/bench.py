"""Compares the Python client with snowflake-id. Writes lines of JSON for run.py."""

import json
import sys
import threading
import time
from typing import Any, Callable

from nodelease import IdGenerator

seconds = float(sys.argv[2])


def rate(f: Callable[[], Any], each: int) -> float:
    """Call f for some time, and return the IDs per second. None does not count as an ID."""
    began = now = time.perf_counter()
    n = 0
    while now < began + seconds:
        for _ in range(max(1000 // each, 1)):
            if f() is not None:
                n += each
        now = time.perf_counter()
    return n / (now - began)


if sys.argv[1] == "first":
    began = time.perf_counter()
    ids = IdGenerator()
    ids.next()
    print((time.perf_counter() - began) * 1000)
elif sys.argv[1] == "together":
    ids = IdGenerator()
    rate(lambda: ids.batch(10_000), 10_000)
    seconds, before = 3.0, time.time() * 1000
    got, after = rate(lambda: ids.batch(10_000), 10_000), time.time() * 1000
    print(json.dumps([got * (after - before) / 1000, before, after]))
else:
    from snowflake import SnowflakeGenerator

    ids, peer, lock = IdGenerator(), SnowflakeGenerator(1), threading.Lock()

    def locked() -> int | None:
        """The peer as threads must use it: without a lock, two of them make the same ID."""
        with lock:
            return peer.__next__()

    for turn in range(-1, 5):
        one = rate(ids.next, 1)
        before, n = ids.requests, 0

        def batch() -> list[int]:
            global n
            n += 10_000
            return ids.batch(10_000)

        many = rate(batch, 10_000)
        line = {"next": one, "batch": many, "per_request": n / max(ids.requests - before, 1), "snowflake-id": rate(peer.__next__, 1), "snowflake-id behind a lock": rate(locked, 1)}
        if turn >= 0:
            print(json.dumps(line))
