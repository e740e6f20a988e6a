"""Addresses, time-outs, and calls side by side, with a sidecar that gives blocks of ten IDs."""

import asyncio
import gc
import http.server
import socket
import threading
import time
import unittest
import warnings
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

from nodelease import AsyncIdGenerator, IdGenerator, NodeleaseError, SidecarUnavailable

from test_vmclock import BODY

LARGE = 3000  # IDs of a batch that needs hundreds of blocks


class Sidecar(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, host: str) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, 0), Answers)
        self.hosts: list[str] = []  # the requests' Host headers
        self.first = 1 << 22
        self.answers = threading.Event()  # they wait for it
        self.answers.set()


class Answers(http.server.BaseHTTPRequestHandler):
    server: Sidecar
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet for each answer: otherwise each waits for an acknowledgement

    def do_POST(self) -> None:
        self.server.hosts.append(self.headers["Host"])
        self.server.answers.wait()
        self.server.first += 10
        body = (BODY % (parse_qs(urlsplit(self.path).query)["nonce"][0], self.server.first)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Calls(unittest.TestCase):
    def serve(self, host: str = "127.0.0.1") -> str:
        self.sidecar = Sidecar(host)
        threading.Thread(target=self.sidecar.serve_forever, daemon=True).start()
        self.addCleanup(self.sidecar.server_close)
        self.addCleanup(self.sidecar.shutdown)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.sidecar.server_port}"

    def test_an_ipv6_address_is_in_brackets(self) -> None:
        try:
            address = self.serve("::1")
        except OSError:
            self.skipTest("no IPv6 here")
        with IdGenerator(address) as ids:
            ids.next()

        async def tasks() -> None:
            async with AsyncIdGenerator(address) as ids:
                await ids.next()

        asyncio.run(tasks())
        self.assertEqual(self.sidecar.hosts, [address.removeprefix("http://")] * 2)

    def test_a_timeout_without_end(self) -> None:
        address = self.serve()
        for timeout in float("inf"), 1e300, 1e10:
            with self.subTest(timeout), IdGenerator(address, timeout=timeout) as ids:
                self.assertEqual(len(set(ids.batch(25))), 25)

            async def tasks() -> None:
                async with AsyncIdGenerator(address, timeout=timeout) as ids:
                    self.assertEqual(len(set(await ids.batch(25))), 25)

            with self.subTest(timeout, tasks=True):
                asyncio.run(tasks())

    def test_an_answer_without_an_end_ends_with_the_timeout(self) -> None:
        def drip() -> None:
            peer, _ = server.accept()
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            try:
                while not ended.wait(0.01):
                    peer.sendall(b" ")
            except OSError:
                pass  # the client has given up
            peer.close()

        ended, made = threading.Event(), threading.Event()
        self.addCleanup(ended.set)
        with socket.create_server(("127.0.0.1", 0)) as server:
            sends = threading.Thread(target=drip, daemon=True)
            sends.start()

            def call() -> None:
                with IdGenerator(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=0.3) as ids:
                    with self.assertRaises(SidecarUnavailable):
                        ids.next()
                made.set()

            calls = threading.Thread(target=call, daemon=True)
            calls.start()
            self.assertTrue(made.wait(10), "the call waits for as long as the answer goes on")
            ended.set()
            calls.join()
            sends.join()

    def test_threads_take_turns(self) -> None:
        with IdGenerator(self.serve(), timeout=60) as ids:
            made: list[Any] = []
            threads = [threading.Thread(target=lambda: made.append(ids.batch(LARGE))) for _ in range(2)]
            for thread in threads:
                thread.start()
            while not ids.requests:
                time.sleep(0.001)
            single = [ids.next() for _ in range(10)]
            self.assertEqual(made, [], "next waited for a large batch")
            for thread in threads:
                thread.join()
            for batch in made:
                self.assertEqual(batch, sorted(batch))
            self.assertEqual(len({*single, *made[0], *made[1]}), 2 * LARGE + 10)

    def test_tasks_take_turns(self) -> None:
        async def tasks() -> None:
            async with AsyncIdGenerator(address, timeout=60) as ids:
                large = [asyncio.create_task(ids.batch(LARGE)) for _ in range(2)]
                while not ids.requests:
                    await asyncio.sleep(0)
                single = [await ids.next() for _ in range(10)]
                self.assertFalse(any(task.done() for task in large), "next waited for a large batch")
                made = await asyncio.gather(*large)
                self.assertEqual(made, [sorted(batch) for batch in made])
                self.assertEqual(len({*single, *made[0], *made[1]}), 2 * LARGE + 10)

        address = self.serve()
        asyncio.run(tasks())

    def test_a_block_that_comes_after_a_fork_is_dropped(self) -> None:
        # In the child of a signal handler's fork: the handler runs just before the block is taken, or just after.
        address = self.serve()
        for make, before in (IdGenerator, True), (IdGenerator, False), (AsyncIdGenerator, True), (AsyncIdGenerator, False):
            with self.subTest(make.__name__, before=before), warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)  # the connection is the parent's
                ids: Any = make(address)
                accept = ids._blocks.accept
                mine: list[int] = []  # the first ticket of the parent's block

                def forked(*answer: Any, ids: Any = ids, accept: Any = accept, before: bool = before, mine: list[int] = mine) -> Any:
                    if mine:
                        return accept(*answer)
                    mine.append(self.sidecar.first)
                    if before:
                        ids._forget()
                    error = accept(*answer)
                    if not before:
                        ids._forget()
                    return error

                async def tasks(ids: Any = ids) -> list[int]:
                    made = [await ids.next(), *await ids.batch(3)]
                    await ids.close()
                    return made

                with mock.patch.object(ids._blocks, "accept", forked):
                    made = asyncio.run(tasks()) if make is AsyncIdGenerator else [ids.next(), *ids.batch(3)]
                self.assertEqual(len(set(made)), 4)
                self.assertGreaterEqual(min(id >> 22 << 12 | id & 4095 for id in made) - mine[0], 10, "an ID of the parent's block")
                if make is IdGenerator:
                    ids.close()
                del ids, accept, forked, tasks
                gc.collect()

    def test_a_signal_handler_waits_for_no_call_of_its_thread(self) -> None:
        for name in "_exchange", "take":
            with self.subTest(name), IdGenerator(self.serve(), timeout=5) as ids:
                ids.next()
                ids._blocks.fast = 0.0, 0.0, 0.0, 0.0, iter(())
                where = ids._blocks if name == "take" else ids
                real = getattr(where, name)
                failed: list[str] = []

                def handled(*a: Any, real: Any = real, ids: IdGenerator = ids, failed: list[str] = failed) -> Any:
                    for call in ids.next, lambda: ids.batch(3):
                        try:
                            call()
                        except NodeleaseError as e:
                            failed.append(str(e))
                    return real(*a)

                with mock.patch.object(where, name, handled):
                    ids.next() if name == "take" else ids.batch(25)
                self.assertRegex(failed[0], "use another generator there")
                self.assertEqual(set(failed), {failed[0]})
                with ids._turn:  # the interrupted call only waits for the lock, so the handler makes its IDs
                    self.assertEqual(len(set(ids.batch(25))), 25)

    def test_a_signal_handler_closes_it(self) -> None:
        ids = IdGenerator(self.serve(), timeout=60)
        real = ids._exchange

        def handled(*a: Any) -> Any:
            answer = real(*a)
            ids.close()
            return answer

        def call() -> None:
            with mock.patch.object(ids, "_exchange", handled), self.assertRaisesRegex(NodeleaseError, "the generator is closed"):
                ids.next()
            self.assertIsNone(ids._socket, "a connection stays open")
            self.assertEqual(ids.requests, 0)
            ended.set()

        ended = threading.Event()
        threading.Thread(target=call, daemon=True).start()
        self.assertTrue(ended.wait(10), "close waits for the call that it has interrupted")

    def test_a_block_that_comes_after_close_is_dropped(self) -> None:
        async def tasks() -> None:
            ids = AsyncIdGenerator(address, timeout=60)
            self.sidecar.answers.clear()
            waits = asyncio.create_task(ids.next())
            while not self.sidecar.hosts:
                await asyncio.sleep(0.001)
            await ids.close()
            self.sidecar.answers.set()
            for call in waits, ids.next():
                with self.assertRaisesRegex(NodeleaseError, "the generator is closed"):
                    await call
            self.assertEqual(ids.requests, 0)
            self.assertIsNone(ids._streams, "a connection stays open")

        address = self.serve()
        asyncio.run(tasks())

    def test_another_loop_uses_and_closes_it(self) -> None:
        ids = AsyncIdGenerator(self.serve())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # a loop that has ended cannot close its connection
            first, second = asyncio.run(ids.next()), asyncio.run(ids.batch(30))
            self.assertEqual(len({first, *second}), 31)
            asyncio.run(ids.close())
            gc.collect()
        self.assertIsNone(ids._streams)
        with self.assertRaisesRegex(NodeleaseError, "the generator is closed"):
            asyncio.run(ids.next())


if __name__ == "__main__":
    unittest.main()
