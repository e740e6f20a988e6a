"""The looks at the clocks between the IDs of a block."""

import unittest
from unittest import mock

from nodelease import _core

from test_vmclock import BODY


class Looks(unittest.TestCase):
    def setUp(self) -> None:
        self.now = {"boot": 50.0, "mono": 5.0, "wall": 1e9}
        for clock in self.now:
            patch = mock.patch.object(_core, "_" + clock, lambda clock=clock: self.now[clock])
            patch.start()
            self.addCleanup(patch.stop)
        self.blocks = _core.Blocks()
        _, expected = self.blocks.ask("localhost", 1)
        answer = BODY.replace('"count":10', '"count":100') % (expected.nonce, 1 << 22)
        self.assertIsNone(self.blocks.accept(200, answer.encode(), expected))
        for _ in range(3):  # the first one looks up what the others are compared with
            self.assertIsNotNone(self.blocks.take())

    def test_each_clock_ends_a_block_at_once(self) -> None:
        for clock in "boot", "mono", "wall":
            with self.subTest(clock):
                self.setUp()
                self.now[clock] += 0.49
                self.assertIsNotNone(self.blocks.take())
                self.now[clock] += 0.011
                self.assertIsNone(self.blocks.take())

    def test_each_clock_that_goes_back_ends_it_at_once(self) -> None:
        for clock in "boot", "mono", "wall":
            with self.subTest(clock):
                self.setUp()
                self.now[clock] -= 0.001
                self.assertIsNone(self.blocks.take())

    def test_ids_stay_unique_across_the_carry_of_the_sequence(self) -> None:
        _, expected = self.blocks.ask("localhost", 1)
        answer = BODY.replace('"count":10', '"count":9000') % (expected.nonce, (1 << 22) + 4000)
        self.assertIsNone(self.blocks.accept(200, answer.encode(), expected))
        made: list[int] = []
        while len(made) < 9000:
            id = self.blocks.take()
            assert id is not None
            made.append(id)
            if len(made) % 700 == 0:  # batches between single IDs
                self.blocks.take_into(made, min(len(made) + 900, 9000))
        self.assertIsNone(self.blocks.take())
        tickets = [id >> 22 << 12 | id & 4095 for id in made]
        self.assertTrue(tickets == list(range((1 << 22) + 4000, (1 << 22) + 13000)), "a ticket twice, or left out")
        self.assertEqual({id >> 12 & 1023 for id in made}, {3})


if __name__ == "__main__":
    unittest.main()
