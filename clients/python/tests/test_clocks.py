"""The readings of the clocks between the IDs of a block."""

import unittest
from unittest import mock

from nodelease import DEFAULT, JS53, SONYFLAKE, IdGenerator, SidecarUnavailable, _core, _generator

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
        for _ in range(3):  # the first one reads the values that the others are compared with
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

    def test_a_later_release_of_the_sidecar_adds_fields(self) -> None:
        _, expected = self.blocks.ask("localhost", 1)
        answer = BODY.replace("{", '{"new":{"node_id":7},').replace('}}', ',"newer":1}}') % (expected.nonce, 1 << 23)
        self.assertIsNone(self.blocks.accept(200, answer.encode(), expected))
        self.assertIsNotNone(self.blocks.take())

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


class Decoded(unittest.TestCase):
    def test_an_id_of_another_layout_is_a_value_error(self) -> None:
        for layout, bits in (JS53, 53), (DEFAULT, 63), (SONYFLAKE, 63):
            self.assertEqual(layout.decompose((1 << bits) - 1).node, (1 << layout.node_bits) - 1)
            for id in -1, 1 << bits, 1 << 63, 10**10_000:
                with self.subTest(bits, id=id > 0), self.assertRaisesRegex(ValueError, "not an ID of this layout|integer string"):
                    layout.decompose(id)


class QuickLooks(Looks):
    """The same for IdGenerator.next, which takes most IDs without the lock."""

    def setUp(self) -> None:
        super().setUp()
        for clock in "boot", "wall":
            patch = mock.patch.object(_generator, clock + "_clock", lambda clock=clock: self.read(clock))
            patch.start()
            self.addCleanup(patch.stop)
        self.during = lambda: None
        self.generator = IdGenerator("unix:/nowhere", timeout=0)
        self.generator._blocks = self.blocks
        blocks, self.blocks = self.blocks, mock.Mock(wraps=self.blocks)
        self.blocks.take.side_effect = self.take
        self.slow = mock.patch.object(blocks, "take", wraps=blocks.take)
        self.counted = self.slow.start()
        self.addCleanup(self.slow.stop)

    def read(self, clock: str) -> float:
        self.during()
        return self.now[clock]

    def take(self) -> int | None:
        # On Linux the boot clock never stops while the monotonic clock advances.
        self.now["boot"] += self.now["mono"] - 5.0
        self.now["mono"] = 5.0
        try:
            return self.generator.next()
        except SidecarUnavailable:
            return None

    def test_most_ids_are_taken_without_the_lock(self) -> None:
        if not _core.ONE_AT_A_TIME:
            self.skipTest("threads of this Python share no lock")
        for _ in range(50):
            self.generator.next()
        self.assertEqual(self.counted.call_count, 0)

    def test_a_fork_behind_the_lock_takes_ids_away(self) -> None:
        for call in "take", "take_into":
            with self.subTest(call):
                self.setUp()
                real = self.generator._blocks

                def forked(*a: object, real: _core.Blocks = real, call: str = call) -> object:
                    made = getattr(type(real), call)(real, *a)
                    self.generator._forget()  # the child, in a signal handler
                    return made

                real.fast = 0.0, 0.0, 0.0, 0.0, iter(())
                with mock.patch.object(real, call, forked), self.assertRaises(SidecarUnavailable):
                    self.generator.next() if call == "take" else self.generator.batch(3)

    def test_a_fork_within_a_call_takes_its_id_away(self) -> None:
        self.during = self.generator._forget  # by a signal handler, in the child
        self.assertIsNone(self.take())

    def test_a_fork_within_a_call_whose_block_was_dropped(self) -> None:
        def during() -> None:
            self.during = lambda: None
            self.generator._blocks.drop()  # by another thread, for which the time was over
            self.generator._forget()

        self.during = during
        self.assertIsNone(self.take())


if __name__ == "__main__":
    unittest.main()
