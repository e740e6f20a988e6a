"""The VMClock device, in a file of its layout."""

import struct
import tempfile
import unittest

from nodelease._core import Blocks, VMClock

BODY = """{"nonce":"%s","pool":"p","node_id":3,"node_bits":10,"first":"%d","count":10,"left_ms":500,
"layout":{"epoch_ms":1735689600000,"tick_ms":1,"time_bits":41,"node_bits":10,"sequence_bits":12,"node_last":false}}"""


class Device(unittest.TestCase):
    def setUp(self) -> None:
        self.file = tempfile.NamedTemporaryFile()
        self.addCleanup(self.file.close)

    def write(self, generation: int, magic: int = 0x4B4C4356, version: int = 1, flags: int = 1 << 8) -> None:
        page = bytearray(4096)
        struct.pack_into("<I4xH14xQ", page, 0, magic, version, flags)
        struct.pack_into("<Q", page, 104, generation)
        self.file.seek(0)
        self.file.write(page)
        self.file.flush()

    def test_a_restored_machine_has_no_block(self) -> None:
        self.write(7)
        blocks = Blocks(lambda: (1.0, 1.0, 1.0), VMClock(self.file.name))

        def fetch(first: int) -> None:
            _, expected = blocks.ask("localhost", 1)
            self.assertIsNone(blocks.accept(200, (BODY % (expected.nonce, first)).encode(), expected))

        fetch(1 << 22)
        self.assertIsNotNone(blocks.take())
        self.write(8)
        out: list[int] = []
        self.assertIsNone(blocks.take())
        blocks.take_into(out, 5)
        self.assertEqual(out, [])
        fetch(2 << 22)
        self.assertIsNotNone(blocks.take())
        # A block in flight when the machine was copied.
        _, expected = blocks.ask("localhost", 1)
        self.write(9)
        blocks.accept(200, (BODY % (expected.nonce, 3 << 22)).encode(), expected)
        self.assertIsNone(blocks.take())

    def test_other_devices(self) -> None:
        self.assertEqual(VMClock(self.file.name + "-none").generation(), b"")
        self.assertEqual(VMClock(self.file.name).generation(), b"", "an empty file")
        for wrong in ({"magic": 1}, {"version": 2}, {"flags": 0}):
            self.write(7, **wrong)
            self.assertEqual(VMClock(self.file.name).generation(), b"", wrong)
        self.write(7)
        self.assertEqual(VMClock(self.file.name).generation(), struct.pack("<Q", 7))


if __name__ == "__main__":
    unittest.main()
