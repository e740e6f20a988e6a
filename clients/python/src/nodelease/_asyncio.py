"""The generator for asyncio."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from ._core import NodeleaseError, parse_head
from ._generator import Common, notice_fork


class AsyncIdGenerator(Common):
    """IdGenerator for asyncio: for the tasks of one event loop at a time."""

    def _forget(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        super()._forget()

    def _here(self) -> None:
        notice_fork()
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # a connection and a lock belong to one loop
            self._loop, self._lock, self._streams = loop, asyncio.Lock(), None

    async def next(self) -> int:
        """Return the next ID: an int below 2^63."""
        notice_fork()
        lock = self._lock
        id = self._blocks.take()  # no other task runs meanwhile
        if id is not None and self._lock is lock:  # otherwise a signal handler has forked, and the parent has this ID
            return id
        return (await self.batch(1))[0]

    async def batch(self, n: int) -> list[int]:
        """Return n IDs that grow."""
        self._here()
        out: list[int] = []
        end, lock = self._end(), self._lock
        while len(out) < n:
            before = len(out)
            try:
                async with asyncio.timeout(max(0, end - time.monotonic())):  # the time that a call waits for others counts
                    await lock.acquire()
            except TimeoutError:
                raise self._late() from None
            try:  # for one block at a time: other calls take IDs in between
                self._blocks.take_into(out, n)
                if len(out) < n:
                    await self._fetch(n - len(out), end)
                    self._blocks.take_into(out, n)
            finally:
                lock.release()
                # Invariant: if a signal handler has forked meanwhile, the parent has the block that came, and the connection.
                if self._lock is not lock:
                    self._forget()
            if self._lock is not lock:
                break
            if len(out) > before:
                end = self._end()
            elif time.monotonic() > end:
                raise self._late()
        return out if self._lock is lock else await self.batch(n)

    async def __aiter__(self) -> Any:
        while True:
            yield await self.next()

    async def _fetch(self, need: int, end: float) -> None:
        delay = 0.0
        while True:
            self._check()
            request, expected = self._blocks.ask(self._host, need)
            error: NodeleaseError | None
            try:
                answer = await asyncio.wait_for(self._exchange(request), max(end - time.monotonic(), 0.001))
            except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as e:
                error = self._unavailable(e)
            else:
                self._check()  # close does not wait for the answer: a block that comes after it is dropped
                error = self._blocks.accept(*answer, expected)
                if error is None:
                    return
            if time.monotonic() + delay >= end:
                raise error
            await asyncio.sleep(delay)
            delay = min(max(delay * 2, 0.01), 0.2)

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        streams, self._streams = self._streams, None  # ours again only after a whole answer
        try:
            if streams is None:
                if self._address.path:
                    streams = await asyncio.open_unix_connection(self._address.path)
                else:
                    streams = await asyncio.open_connection(self._address.host, self._address.port)
            reader, writer = streams
            writer.write(request)
            status, length, keep = parse_head((await reader.readuntil(b"\r\n\r\n"))[:-4])
            body = await reader.readexactly(length)
            if keep and not self._closed:
                self._streams, streams = streams, None
            return status, body
        finally:
            if streams is not None:
                streams[1].close()

    async def close(self) -> None:
        """Drop the block and the connection."""
        self._here()  # a loop that has ended has no connection any more
        self._closed = True
        self._blocks.close()
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def __aenter__(self) -> AsyncIdGenerator:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
