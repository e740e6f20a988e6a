"""Unique snowflake IDs, made in this process from blocks of the Nodelease sidecar.

    from nodelease import IdGenerator
    with IdGenerator() as ids:
        print(ids.next())
"""

from ._core import (
    DEFAULT, DISCORD, JS53, SONYFLAKE, TWITTER, WIDE16,
    ClockBehind, Exhausted, Fenced, Layout, NodeleaseError, Parts, SidecarUnavailable,
)
from ._asyncio import AsyncIdGenerator
from ._generator import IdGenerator

__all__ = [
    "AsyncIdGenerator", "ClockBehind", "DEFAULT", "DISCORD", "Exhausted", "Fenced", "IdGenerator", "JS53", "Layout",
    "NodeleaseError", "Parts", "SONYFLAKE", "SidecarUnavailable", "TWITTER", "WIDE16", "default_generator", "next_id",
]

_default: IdGenerator | None = None


def default_generator() -> IdGenerator:
    """The generator of this process, on NODELEASE_SIDECAR. It is created by the first call, and never closed."""
    global _default
    if _default is None:
        _default = IdGenerator()
    return _default


def next_id() -> int:
    """An ID of the process's generator: a default for columns and fields.

    SQLAlchemy: mapped_column(BigInteger, primary_key=True, default=next_id)
    Django:     models.BigIntegerField(primary_key=True, default=next_id, editable=False)
    """
    return default_generator().next()
