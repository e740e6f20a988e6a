"""Snowflake IDs made in this process, from blocks that the Nodelease sidecar has drawn."""
# The rules that this file keeps are those of docs/protocol-clients.md.

from __future__ import annotations

import json
import mmap
import os
import secrets
import struct
import sys
import sysconfig
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import islice
from operator import length_hint
from typing import Any, Callable, Iterator, NamedTuple
from urllib.parse import urlsplit

DEFAULT_SIDECAR = "http://127.0.0.1:7373"
_FIRST, _MOST = 256, 1 << 20  # size of the requested blocks: at first, and at most
_CHUNK = 4096  # IDs of a batch between two readings of the clocks
Clocks = tuple[float, float, float]
# take compares these and takes from them: an ID of the iterator is valid while the boot clock and the wall clock are within their bounds.
Fast = tuple[float, float, float, float, Iterator[int]]
# Python's own lock makes each step of an iterator over a range one step for all threads.
ONE_AT_A_TIME = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
# Invariant: no child of a fork takes an ID of the parent's block. Linux clears this page in each child, also in that of a fork by
# C code, as in uWSGI, of which Python does not know. Elsewhere, each call compares the process's ID.
marked: Any = [1]
try:
    marked = mmap.mmap(-1, 1, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    marked.madvise(18)  # MADV_WIPEONFORK
except (AttributeError, OSError, ValueError):
    ONE_AT_A_TIME = False


class NodeleaseError(Exception):
    """The base of all errors of this package. `word` is the sidecar's word for it, if it has one."""

    def __init__(self, message: str, word: str = "") -> None:
        super().__init__(message)
        self.word = word


class SidecarUnavailable(NodeleaseError):
    """No sidecar answers at the address: is it running, and does NODELEASE_SIDECAR name it?"""


class Fenced(NodeleaseError):
    """The node ID cannot be used now: DynamoDB does not answer, or another process has it."""


class Exhausted(NodeleaseError):
    """More IDs were requested than the layout has for one node ID."""


class ClockBehind(NodeleaseError):
    """The sidecar's clock was set back; it makes IDs when the clock has caught up."""


_ERRORS = {"suspended": Fenced, "lost": Fenced, "closed": Fenced, "busy": Exhausted, "clock_behind": ClockBehind}


class Parts(NamedTuple):
    """A decoded ID. In a narrow pool `node` includes the sequence's upper end."""

    time: datetime
    node: int
    sequence: int


@dataclass(frozen=True)
class Layout:
    """The meaning of an ID's bits, from the highest down: time, node, sequence (or time, sequence, node)."""

    epoch_ms: int
    tick_ms: int
    time_bits: int
    node_bits: int
    sequence_bits: int
    node_last: bool = False

    def decompose(self, id: int) -> Parts:
        """Decode an ID of this layout."""
        low = self.node_bits + self.sequence_bits
        if not 0 <= id < 1 << self.time_bits + low:  # a time after the year 9999 would be an OverflowError
            raise ValueError(f"{id} is not an ID of this layout: use 0 to 2^{self.time_bits + low}-1")
        at = datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=self.epoch_ms + (id >> low) * self.tick_ms)
        if self.node_last:
            return Parts(at, id & (1 << self.node_bits) - 1, id >> self.node_bits & (1 << self.sequence_bits) - 1)
        return Parts(at, id >> self.sequence_bits & (1 << self.node_bits) - 1, id & (1 << self.sequence_bits) - 1)


DEFAULT = Layout(1735689600000, 1, 41, 10, 12)
WIDE16 = Layout(1735689600000, 1, 41, 16, 6)
JS53 = Layout(1735689600000, 1, 41, 6, 6)
TWITTER = Layout(1288834974657, 1, 41, 10, 12)
DISCORD = Layout(1420070400000, 1, 41, 10, 12)
SONYFLAKE = Layout(1409529600000, 10, 39, 16, 8, True)


# Where the sidecar listens: a Unix socket's path, or a host and a port.
class Address(NamedTuple):
    path: str
    host: str
    port: int

    # Read unix:/path or http://host:port. None means NODELEASE_SIDECAR, or the default.
    @staticmethod
    def parse(text: str | None) -> Address:
        text = text or os.environ.get("NODELEASE_SIDECAR") or DEFAULT_SIDECAR
        if text.startswith("unix:") and len(text) > 5:
            return Address(text[5:].removeprefix("//"), "", 0)
        try:
            url = urlsplit(text)
            if url.scheme == "http" and url.hostname and url.path in ("", "/"):
                return Address("", url.hostname, url.port or 80)
        except ValueError:
            pass
        raise ValueError(f"the sidecar's address {text!r} (NODELEASE_SIDECAR): use http://127.0.0.1:7373 or unix:/path/to/socket")


# The boot clock counts the time that the machine slept. Linux only; elsewhere the monotonic clock replaces it. On Linux the
# boot clock is the monotonic clock plus the time slept so far, which never shrinks: so for each ID reading the boot clock is enough.
_boot = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic
_mono, _wall = time.monotonic, time.time
boot_clock, wall_clock = _boot, _wall


# The boot clock, the monotonic clock and the wall clock, in seconds.
def system_clocks() -> Clocks:
    return (_boot(), _mono(), _wall())


# The generation counter of a VMClock device, which changes when the machine is restored from a snapshot.
class VMClock:
    def __init__(self, path: str = "/dev/vmclock0") -> None:
        self._fd, self.present = -1, True
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            magic, version, flags = struct.unpack("<I4xH14xQ", os.pread(self._fd, 32, 0))
            if (magic, version, flags >> 8 & 1) == (0x4B4C4356, 1, 1):
                return
        except (OSError, struct.error):
            pass
        self.close()

    # The counter; empty if there is none.
    def generation(self) -> bytes:
        return b"" if self._fd < 0 else os.pread(self._fd, 8, 104)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self.present = -1, False


# The values that an answer is compared with, and the clock readings from which its time counts.
class Expected(NamedTuple):
    nonce: str
    began: Clocks
    generation: bytes


# The block of one generator, and its requests. Not thread-safe; it sends no request itself.
class Blocks:
    def __init__(self, clocks: Callable[[], Clocks] = system_clocks, vm: VMClock | None = None) -> None:
        self.clocks = clocks
        self.layout: Layout | None = None
        self.fetched = 0  # blocks so far
        self._pool: Any = None
        self._vm = vm or VMClock()
        self.forget()

    # Drop the block and take a new name: after a fork, two processes have the old ones.
    def forget(self) -> None:
        self._name, self._want = secrets.token_hex(8), _FIRST
        self.drop()

    def drop(self) -> None:
        # Invariant: a call that still uses the IDs gets none of them, since a signal handler may fork within it, now or later.
        for _ in getattr(self, "_ids", ()):
            pass
        self._next = self._end = self._first = 0
        self._left, self._began, self._generation = 0.0, self.clocks(), b""
        self._ids = iter(range(0))
        self.fast: Fast = 0.0, 0.0, 0.0, 0.0, self._ids

    def close(self) -> None:
        self.drop()
        self._vm.close()

    def _over(self) -> bool:
        # The first clock to reach the end ends the block. A clock that went back may hide a sleep.
        boot, mono, wall = self.clocks()
        (boot0, mono0, wall0), left = self._began, self._left
        if 0 <= boot - boot0 < left and 0 <= mono - mono0 < left and 0 <= wall - wall0 < left:
            return self._vm.present and self._vm.generation() != self._generation
        return True

    # An ID of the block, or None when another block is needed.
    def take(self) -> int | None:
        if self._over():
            return None
        for id in self._ids:
            return id
        return next(self._ids, None) if self._run() else None

    # Append IDs of the block to out until it has n, or another block is needed.
    def take_into(self, out: list[int], n: int) -> None:
        while len(out) < n and not self._over():
            before = len(out)
            out.extend(islice(self._ids, min(n - before, _CHUNK)))
            if len(out) == before and not self._run():
                return

    def _run(self) -> bool:
        # When the last ones are used up, the next IDs of the block with equal distances: up to a carry
        # beyond the node ID. From here on only the iterator has them, so each is taken once.
        ticket = self._next
        count = min(self._end - ticket, self._mask + 1 - (ticket & self._mask)) if self._low else self._end - ticket
        if count <= 0:
            return False
        first, step = ticket >> self._low << self._shift | self._node | ticket & self._mask, 1 if self._low else 1 << self._shift
        self._next = ticket + count
        self._ids = iter(range(first, first + count * step, step))
        if ONE_AT_A_TIME and not self._vm.present:
            boot, _, wall = self._began
            self.fast = boot, boot + self._left, wall, wall + self._left, self._ids
        return True

    # Drop the block and return a request for another one, and the values to expect in its answer.
    def ask(self, host: str, need: int) -> tuple[bytes, Expected]:
        used = self._next - self._first - length_hint(self._ids)
        if self._end:  # used up: request more; too old: as many as were used
            self._want = min(self._want * 2, _MOST) if self._first + used >= self._end else max(_FIRST, min(used * 2, _MOST))
        self.drop()
        nonce = secrets.token_hex(8)
        target = f"/v1/blocks?client={self._name}&nonce={nonce}&n={min(max(self._want, need), _MOST)}"
        # The clocks are read before sending: left_ms was computed later, so the block ends early, never late.
        expected = Expected(nonce, self.clocks(), self._vm.generation())
        return f"POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n".encode(), expected

    # Take the block of an answer. Return an error that a retry may resolve, raise any other.
    def accept(self, status: int, body: bytes, expected: Expected) -> NodeleaseError | None:
        try:
            answer = json.loads(body)
            if status != 200:
                word = str(answer["error"])
                error = _ERRORS.get(word, NodeleaseError)(f"{answer['detail']}: {answer['remedy']}", word)
                if word in ("lost", "closed"):  # the sidecar is restarting
                    return error
                raise error
            if answer["nonce"] != expected.nonce:  # a cached answer has been used before
                raise NodeleaseError("the answer belongs to another request: is there a proxy or a cache in front of the sidecar?")
            # A later release of the sidecar may add fields.
            layout, first, count = Layout(**{name: answer["layout"][name] for name in Layout.__dataclass_fields__}), int(answer["first"]), int(answer["count"])
            node, bits, left, pool = int(answer["node_id"]), int(answer["node_bits"]), int(answer["left_ms"]), answer["pool"]
            self._low = 0 if layout.node_last else layout.sequence_bits
            self._shift = self._low + bits
            if not (0 <= node < 1 << bits and bits <= layout.node_bits and count > 0 and first >= 0):
                raise ValueError("a node ID or a count that is out of range")
        except (ValueError, KeyError, TypeError) as e:
            raise NodeleaseError(f"an answer that is not the sidecar's ({status}, {e}): does NODELEASE_SIDECAR name a sidecar of this release?") from e
        if self._pool not in (None, (pool, layout)):
            raise NodeleaseError(f"the sidecar now serves pool {pool} ({layout}), not {self._pool} as before: IDs of two pools may be equal; restart the program")
        self._pool, self.layout = (pool, layout), layout
        self._mask, self._node = (1 << self._low) - 1, node << self._low
        self._first = self._next = first
        self._end, self._left, self._began, self._generation = first + count, left / 1000, expected.began, expected.generation
        self.fetched += 1
        return None


# The status, the length of the body, and whether the connection stays open.
def parse_head(head: bytes) -> tuple[int, int, bool]:
    try:
        lines = head.decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
        status, length = int(lines[0].split(" ")[1]), int(fields["content-length"])
        if lines[0].startswith("HTTP/1.1 ") and 0 <= length <= 1 << 20:
            return status, length, fields.get("connection", "").lower() != "close"
    except (ValueError, IndexError, KeyError):
        pass
    raise ConnectionError(f"an answer that is not the sidecar's: {head[:80]!r}")
