# The generator for threads, and the base of both generators.

from __future__ import annotations

import os
import socket
import threading
import time
import weakref
from contextlib import contextmanager
from typing import Any, Iterator, NoReturn

from ._core import boot_clock, marked, wall_clock, Address, Blocks, Layout, NodeleaseError, SidecarUnavailable, parse_head

_LONGEST = 2e6  # seconds, 23 days: neither locks nor sockets accept all longer ones

_all: weakref.WeakSet[Any] = weakref.WeakSet()
_pid, _noticing = 0, threading.RLock()


def _after_fork() -> None:
    # The child has a copy of every block, and locks that a thread of the parent may hold.
    global _pid
    for generator in list(_all):
        generator._forget()
    marked[0], _pid = 1, os.getpid()


# Notices a fork by C code, which calls no hooks. Before it has returned, no thread of the child uses a generator.
def notice_fork() -> None:
    if not marked[0] or _pid != os.getpid():
        with _noticing:
            if not marked[0] or _pid != os.getpid():
                _after_fork()


_after_fork()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# The base of both generators.
class Common:
    def __init__(self, sidecar: str | None = None, *, timeout: float = 2.0) -> None:
        self._address = Address.parse(sidecar)
        host = f"[{self._address.host}]" if ":" in self._address.host else self._address.host  # IPv6
        self._host = f"{host}:{self._address.port}" if host else "localhost"
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

    def _end(self) -> float:
        return time.monotonic() + min(self.timeout, _LONGEST)

    def _unavailable(self, e: BaseException) -> SidecarUnavailable:
        where = f"unix:{self._address.path}" if self._address.path else f"http://{self._host}"
        return SidecarUnavailable(f"no sidecar answers at {where} ({e or type(e).__name__}): start `nodelease serve`, or set NODELEASE_SIDECAR")

    def _late(self) -> SidecarUnavailable:
        return self._unavailable(TimeoutError("no block in time: no answer, answers that take longer than blocks may be used, or too many other calls"))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a generator cannot be copied or pickled: the copy would make the same IDs; create another one")


class IdGenerator(Common):
    """Makes IDs, from any thread. Close it, or use it as a context manager.

    `sidecar` is unix:/path or http://host:port; by default NODELEASE_SIDECAR, or port 7373 of this machine. `timeout` is how
    many seconds a call may wait for a sidecar that does not answer, at most 23 days.
    """

    def _forget(self) -> None:
        self._turn, self._lock = threading.RLock(), threading.RLock()  # they know their thread
        self._socket: socket.socket | None = None  # not closed: the parent uses it
        super()._forget()

    def _mine(self) -> Any:
        notice_fork()
        # Invariant (liveness): no call waits for one that cannot go on, because it is on the same thread, below a signal handler or a finalizer.
        if self._lock._is_owned():  # type: ignore[attr-defined]
            raise NodeleaseError("a signal handler or a finalizer has interrupted a call of this generator, and makes an ID: use another generator there")
        return self._lock

    @contextmanager
    def _locked(self, end: float) -> Iterator[None]:
        # The time that a call waits for other calls counts. Only the one that has the turn waits for the lock:
        # so a call that takes the lock again and again cannot overtake it.
        turn, lock = self._turn, self._lock  # a child of a fork has others
        if not turn.acquire(timeout=max(0, end - time.monotonic())):
            raise self._late()
        try:
            if not lock.acquire(timeout=max(0, end - time.monotonic())):
                raise self._late()
        finally:
            turn.release()
        try:
            yield
        finally:
            lock.release()
            # Invariant: if a signal handler has forked meanwhile, the parent has the block that came, and the connection.
            if self._lock is not lock:
                self._forget()

    def next(self) -> int:
        """Return the next ID: an int below 2^63."""
        boot, boot_end, wall, wall_end, ids = self._blocks.fast
        # The clocks are read before the ID is taken, for each ID. A loop is the fastest way to take one.
        if marked[0] and boot <= boot_clock() < boot_end and wall <= wall_clock() < wall_end:
            for id in ids:
                return id
        lock = self._mine()
        if lock.acquire(False):  # without a context manager, which would cost most of the time
            try:
                taken = self._blocks.take()
            finally:
                lock.release()
            if taken is not None and self._lock is lock:  # otherwise a signal handler has forked, and the parent has this ID
                return taken
        return self.batch(1)[0]

    __call__ = next

    def batch(self, n: int) -> list[int]:
        """Return n IDs that grow."""
        out: list[int] = []
        end, lock = self._end(), self._mine()
        while len(out) < n:
            before = len(out)
            with self._locked(end):  # for one block at a time: other calls take IDs in between
                self._blocks.take_into(out, n)
                if len(out) < n:
                    self._fetch(n - len(out), end)
                    self._blocks.take_into(out, n)
            if len(out) > before:
                end = self._end()
            elif time.monotonic() > end:
                raise self._late()
        return out if self._lock is lock else self.batch(n)

    def __iter__(self) -> Iterator[int]:
        while True:
            yield self.next()

    def _fetch(self, need: int, end: float) -> None:
        self._check()
        delay = 0.0
        while True:
            request, expected = self._blocks.ask(self._host, need)
            error: NodeleaseError | None
            try:
                answer = self._exchange(request, end)
            except OSError as e:
                error = self._unavailable(e)
            else:
                self._check()  # a signal handler may have closed it: a block that comes after it is dropped
                error = self._blocks.accept(*answer, expected)
                if error is None:
                    return
            if time.monotonic() + delay >= end:
                raise error
            time.sleep(delay)  # at first 0: the sidecar was restarted, and the connection is old
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
                data += self._receive(s, end)
            head, _, body = data.partition(b"\r\n\r\n")
            status, length, keep = parse_head(head)
            while len(body) < length:
                body += self._receive(s, end)
            if keep and len(body) == length and not self._closed:
                self._socket, s = s, None
            return status, body[:length]
        finally:
            if s is not None:
                s.close()

    @staticmethod
    def _receive(s: socket.socket, end: float) -> bytes:
        left = end - time.monotonic()
        if left <= 0:  # an answer that comes in small parts does not prolong the call
            raise TimeoutError("timed out")
        s.settimeout(left)
        data = s.recv(1 << 16)
        if not data:
            raise ConnectionError("the connection was closed")
        return data

    def close(self) -> None:
        """Drop the block and the connection."""
        notice_fork()
        with self._turn, self._lock:
            self._closed = True
            self._blocks.close()
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def __enter__(self) -> IdGenerator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
