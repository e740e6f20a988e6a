"""The adapter of the conformance suite: clients/conformance/doc.go."""

import asyncio
import inspect
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import nodelease
from nodelease import AsyncIdGenerator, IdGenerator, Layout

clocks = {"boot": 1000.0, "mono": 1000.0, "wall": 1e9}


# The clocks that the client reads for each ID, and for a block.
nodelease._core._boot = lambda: clocks["boot"]
nodelease._core._mono = lambda: clocks["mono"]
nodelease._core._wall = lambda: clocks["wall"]


def word(e: nodelease.NodeleaseError) -> str:
    kinds = {nodelease.SidecarUnavailable: "unavailable", nodelease.Fenced: "fenced", nodelease.Exhausted: "exhausted", nodelease.ClockBehind: "clock"}
    return kinds.get(type(e), "other")


def fork(ids: IdGenerator, n: int) -> list[int]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, json.dumps([ids.next() for _ in range(n)]).encode())
        finally:
            os._exit(0)
    os.close(write)
    mine = [ids.next() for _ in range(n)]
    with os.fdopen(read, "rb") as pipe:
        theirs = json.loads(pipe.read())
    os.waitpid(child, 0)
    if len(theirs) != n:
        raise RuntimeError("the child made nothing")
    return mine + theirs


async def tasks(ids: AsyncIdGenerator, threads: int, n: int) -> list[int]:
    async def one() -> list[int]:
        return [await ids.next() for _ in range(n)]

    return sum(await asyncio.gather(*(one() for _ in range(threads))), [])


async def beside(ids: AsyncIdGenerator, n: int) -> tuple[list[int], int]:
    batch = asyncio.create_task(ids.batch(n))
    before = ids.requests
    while ids.requests == before:
        await asyncio.sleep(0)
    id = await ids.next()
    first = int(not batch.done())
    return [id, *await batch], first


def beside_thread(ids: IdGenerator, n: int) -> tuple[list[int], int]:
    with ThreadPoolExecutor(1) as pool:
        before = ids.requests
        batch = pool.submit(ids.batch, n)
        while ids.requests == before:
            time.sleep(0.001)
        id = ids.next()
        first = int(not batch.done())
        return [id, *batch.result()], first


def threads(ids: IdGenerator, count: int, n: int) -> list[int]:
    with ThreadPoolExecutor(count) as pool:
        return sum(pool.map(lambda _: [ids.next() for _ in range(n)], range(count)), [])


async def serve(make: Any) -> None:
    ids: Any = None
    is_async = make is AsyncIdGenerator
    for line in sys.stdin:
        c = json.loads(line)
        out: dict[str, Any] = {}
        try:
            made: Any = []
            match c["op"]:
                case "new":
                    ids = make(c["sidecar"], timeout=60.0)
                case "timeout":
                    ids.timeout = c["ms"] / 1000
                case "next":
                    made = ids.next()
                case "batch":
                    made = ids.batch(c["n"])
                case "threads":
                    made = tasks(ids, c["threads"], c["n"]) if is_async else threads(ids, c["threads"], c["n"])
                case "beside":
                    made, out["count"] = await beside(ids, c["n"]) if is_async else beside_thread(ids, c["n"])
                case "fork" if not is_async:
                    made = fork(ids, c["n"])
                case "step":
                    clocks[c["clock"]] += c["ms"] / 1000
                case "requests":
                    out["count"] = ids.requests
                case "decode":
                    p = Layout(**c["layout"]).decompose(int(c["id"]))
                    out = {"time_ms": (p.time - p.time.fromtimestamp(0, p.time.tzinfo)) // nodelease._core.timedelta(milliseconds=1), "node": p.node, "sequence": p.sequence}
            if inspect.isawaitable(made):
                made = await made
            out["ids"] = [str(id) for id in (made if isinstance(made, list) else [made])]
        except nodelease.NodeleaseError as e:
            out = {"error": word(e), "detail": str(e)}
        print(json.dumps(out), flush=True)


asyncio.run(serve(AsyncIdGenerator if sys.argv[1:] == ["asyncio"] else IdGenerator))
