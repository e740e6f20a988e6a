"""The generators: one for threads, one for asyncio."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
import weakref
from typing import Any, Iterator, NoReturn

from ._core import Address, Blocks, Layout, NodeleaseError, SidecarUnavailable, parse_head

_all: weakref.WeakSet[Any] = weakref.WeakSet()


def _after_fork() -> None:
    # The child has a copy of every block, and locks that a thread of the parent may hold.
    for generator in list(_all):
        generator._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Common:
    def __init__(self, sidecar: str | None, timeout: float) -> None:
        self._address = Address.parse(sidecar)
        self._host = f"{self._address.host}:{self._address.port}" if self._address.host else "localhost"
        self.timeout = timeout  # seconds; may be changed
        self._blocks = Blocks()
        self._closed = False
        self._forget()
        _all.add(self)

    def _forget(self) -> None:
        self._blocks.forget()

    @property
    def layout(self) -> Layout | None:
        """The layout of the pool, once an ID was made."""
        return self._blocks.layout

    @property
    def requests(self) -> int:
        """How many blocks were fetched so far."""
        return self._blocks.fetched

    def _check(self) -> None:
        if self._closed:
            raise NodeleaseError("the generator is closed")

    def _unavailable(self, e: BaseException) -> SidecarUnavailable:
        where = f"unix:{self._address.path}" if self._address.path else f"http://{self._host}"
        return SidecarUnavailable(f"no sidecar answers at {where} ({e or type(e).__name__}): start `nodelease serve`, or set NODELEASE_SIDECAR")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a generator cannot be copied or pickled: the copy would make the same IDs; make another one")


class IdGenerator(_Common):
    """Makes IDs, from any thread. Close it, or use it as a context manager.

    `sidecar` is unix:/path or http://host:port; by default NODELEASE_SIDECAR, or port 7373 of this
    machine. `timeout` is how many seconds a call may wait for a sidecar that does not answer.
    """

    def __init__(self, sidecar: str | None = None, *, timeout: float = 2.0) -> None:
        super().__init__(sidecar, timeout)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None  # not closed: the parent uses it
        super()._forget()

    def next(self) -> int:
        """Return the next ID: an int below 2^63."""
        with self._lock:
            end = 0.0
            while True:
                id = self._blocks.take()
                if id is not None:
                    return id
                end = end or time.monotonic() + self.timeout
                if time.monotonic() > end:
                    raise SidecarUnavailable("the sidecar's answers take longer than blocks may be used")
                self._fetch(1)

    __call__ = next

    def batch(self, n: int) -> list[int]:
        """Return n IDs that grow."""
        out: list[int] = []
        with self._lock:
            got = time.monotonic()
            while len(out) < n:
                before = len(out)
                self._blocks.take_into(out, n)
                if len(out) > before:
                    got = time.monotonic()
                elif time.monotonic() > got + self.timeout:
                    raise SidecarUnavailable("the sidecar's answers take longer than blocks may be used")
                if len(out) < n:
                    self._fetch(n - len(out))
        return out

    def __iter__(self) -> Iterator[int]:
        while True:
            yield self.next()

    def _fetch(self, need: int) -> None:
        self._check()
        end, delay = time.monotonic() + self.timeout, 0.0
        while True:
            request, expected = self._blocks.ask(self._host, need)
            error: NodeleaseError | None
            try:
                answer = self._exchange(request, end)
            except OSError as e:
                error = self._unavailable(e)
            else:
                error = self._blocks.accept(*answer, expected)
                if error is None:
                    return
            if time.monotonic() + delay >= end:
                raise error
            time.sleep(delay)  # at first 0: the sidecar was started anew, and the connection is an old one
            delay = min(max(delay * 2, 0.01), 0.2)

    def _exchange(self, request: bytes, end: float) -> tuple[int, bytes]:
        s = None
        try:
            s, self._socket = self._socket, None  # it is ours again only after a whole answer
            if s is None:
                s = socket.socket(socket.AF_UNIX) if self._address.path else None
                left = max(end - time.monotonic(), 0.001)
                if s is None:
                    s = socket.create_connection((self._address.host, self._address.port), left)
                    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                else:
                    s.settimeout(left)
                    s.connect(self._address.path)
            s.settimeout(max(end - time.monotonic(), 0.001))
            s.sendall(request)
            data = b""
            while b"\r\n\r\n" not in data and len(data) < 1 << 16:
                data += self._receive(s)
            head, _, body = data.partition(b"\r\n\r\n")
            status, length, keep = parse_head(head)
            while len(body) < length:
                body += self._receive(s)
            if keep and len(body) == length:
                self._socket, s = s, None
            return status, body[:length]
        finally:
            if s is not None:
                s.close()

    @staticmethod
    def _receive(s: socket.socket) -> bytes:
        data = s.recv(1 << 16)
        if not data:
            raise ConnectionError("the connection was closed")
        return data

    def close(self) -> None:
        """Drop the block and the connection."""
        with self._lock:
            self._closed = True
            self._blocks.close()
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def __enter__(self) -> IdGenerator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncIdGenerator(_Common):
    """IdGenerator for asyncio: for the tasks of one event loop at a time."""

    def __init__(self, sidecar: str | None = None, *, timeout: float = 2.0) -> None:
        super().__init__(sidecar, timeout)

    def _forget(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        super()._forget()

    def _here(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # a connection and a lock belong to their loop
            self._loop, self._lock, self._streams = loop, asyncio.Lock(), None

    async def next(self) -> int:
        """Return the next ID: an int below 2^63."""
        id = self._blocks.take()  # no other task runs meanwhile
        if id is not None:
            return id
        return (await self.batch(1))[0]

    async def batch(self, n: int) -> list[int]:
        """Return n IDs that grow."""
        self._here()
        out: list[int] = []
        async with self._lock:
            got = time.monotonic()
            while len(out) < n:
                before = len(out)
                self._blocks.take_into(out, n)
                if len(out) > before:
                    got = time.monotonic()
                elif time.monotonic() > got + self.timeout:
                    raise SidecarUnavailable("the sidecar's answers take longer than blocks may be used")
                if len(out) < n:
                    await self._fetch(n - len(out))
        return out

    async def __aiter__(self) -> Any:
        while True:
            yield await self.next()

    async def _fetch(self, need: int) -> None:
        self._check()
        end, delay = time.monotonic() + self.timeout, 0.0
        while True:
            request, expected = self._blocks.ask(self._host, need)
            error: NodeleaseError | None
            try:
                answer = await asyncio.wait_for(self._exchange(request), max(end - time.monotonic(), 0.001))
            except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as e:
                error = self._unavailable(e)
            else:
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
            if keep:
                self._streams, streams = streams, None
            return status, body
        finally:
            if streams is not None:
                streams[1].close()

    async def close(self) -> None:
        """Drop the block and the connection."""
        self._closed = True
        self._blocks.close()
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def __aenter__(self) -> AsyncIdGenerator:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
