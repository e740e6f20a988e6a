"""The looks at the clocks between the IDs of a block."""

import unittest
from unittest import mock

from nodelease import _core

from test_vmclock import BODY


class Looks(unittest.TestCase):
    def setUp(self) -> None:
        self.now = {"boot": 50.0, "mono": 5.0, "wall": 1e9}
        mono = mock.patch.object(_core, "_mono", lambda: self.now["mono"])
        mono.start()
        self.addCleanup(mono.stop)
        self.blocks = _core.Blocks(lambda: (self.now["boot"], self.now["mono"], self.now["wall"]))
        _, expected = self.blocks.ask("localhost", 1)
        answer = BODY.replace('"count":10', '"count":100') % (expected.nonce, 1 << 22)
        self.assertIsNone(self.blocks.accept(200, answer.encode(), expected))
        self.assertIsNotNone(self.blocks.take())

    def go_on(self, seconds: float) -> None:
        for clock in self.now:
            self.now[clock] += seconds

    def test_each_clock_ends_a_block_within_a_millisecond(self) -> None:
        for clock in "boot", "wall":
            with self.subTest(clock):
                self.setUp()
                self.now[clock] += 3600
                self.go_on(0.0011)
                self.assertIsNone(self.blocks.take())

    def test_the_monotonic_clock_ends_it_at_once(self) -> None:
        self.go_on(0.4995)
        self.assertIsNotNone(self.blocks.take())  # looks, half a millisecond before the end
        self.go_on(0.0004)
        self.assertIsNotNone(self.blocks.take())
        self.go_on(0.0002)
        self.assertIsNone(self.blocks.take())

    def test_a_monotonic_clock_that_goes_back_ends_it(self) -> None:
        self.now["mono"] -= 1
        self.assertIsNone(self.blocks.take())


if __name__ == "__main__":
    unittest.main()
