"""Defaults of columns and fields, in real SQLAlchemy and Django, with a real sidecar: clients/with-sidecar.sh."""

import asyncio
import os
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

import django
import nodelease
from django.conf import settings
from nodelease import AsyncIdGenerator, DEFAULT, next_id
from sqlalchemy import BigInteger, create_engine, func, select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

folder = tempfile.TemporaryDirectory()
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{folder.name}/django", "OPTIONS": {"timeout": 60}}}, USE_TZ=True)
django.setup()

from django.db import connection, connections, models  # noqa: E402


def tearDownModule() -> None:
    nodelease.default_generator().close()
    folder.cleanup()


class Base(DeclarativeBase):
    pass


class Row(Base):
    __tablename__ = "rows"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, default=next_id)
    text: Mapped[str]


class Order(models.Model):
    id = models.BigIntegerField(primary_key=True, default=next_id, editable=False)
    text = models.TextField()

    class Meta:
        app_label = "shop"


class Databases(unittest.TestCase):
    def check(self, ids: list[int], n: int) -> None:
        """n distinct IDs, all of this sidecar's node ID."""
        self.assertEqual(len(set(ids)), n)
        self.assertEqual({DEFAULT.decompose(id).node for id in ids}, {DEFAULT.decompose(next_id()).node})

    def test_sqlalchemy(self) -> None:
        engine = create_engine("sqlite://")
        Base.metadata.create_all(engine)
        with Session(engine) as session:
            rows = [Row(text=str(i)) for i in range(1000)]
            session.add_all(rows)
            session.commit()
            ids = [row.id for row in rows]
            self.assertEqual(ids, sorted(ids))
            session.execute(Row.__table__.insert(), [{"text": str(i)} for i in range(500)])
            self.check(list(session.scalars(select(Row.id))), 1500)
        engine.dispose()

    def test_sqlalchemy_asyncio(self) -> None:
        async def run() -> None:
            engine = create_async_engine(f"sqlite+aiosqlite:///{folder.name}/async")
            async with engine.begin() as c:
                await c.run_sync(Base.metadata.create_all)

            async def some() -> None:
                async with AsyncSession(engine) as session:
                    session.add_all(Row(text=str(i)) for i in range(100))
                    await session.commit()

            await some()
            # The asynchronous generator, whose IDs are set explicitly, and the defaults.
            async with AsyncIdGenerator() as ids, AsyncSession(engine) as session:
                session.add_all([Row(id=id, text="by hand") for id in await ids.batch(100)])
                await session.commit()
                self.check(list(await session.scalars(select(Row.id))), 200)
                self.assertEqual(await session.scalar(select(func.count()).where(Row.text == "by hand")), 100)
            await engine.dispose()

        asyncio.run(run())

    def test_django(self) -> None:
        with connection.schema_editor() as editor:
            editor.create_model(Order)
        try:
            orders = [Order.objects.create(text=str(i)) for i in range(20)]
            ids = [order.id for order in orders]
            self.assertEqual(ids, sorted(ids))
            Order.objects.bulk_create(Order(text=str(i)) for i in range(500))

            def one(i: int) -> None:
                Order.objects.create(text=str(i))
                connections.close_all()

            with ThreadPoolExecutor(4) as pool:
                list(pool.map(one, range(40)))

            async def run() -> None:
                await Order.objects.acreate(text="async")
                async with AsyncIdGenerator() as ids:
                    await Order.objects.acreate(id=await ids.next(), text="async, by hand")

            asyncio.run(run())
            self.check(list(Order.objects.values_list("id", flat=True)), 562)
            self.assertEqual(Order.objects.get(pk=ids[0]).text, "0")
        finally:
            connections.close_all()

    def test_one_generator_of_the_process(self) -> None:
        before = nodelease.default_generator()
        next_id()
        self.assertIs(nodelease.default_generator(), before)
        self.assertGreater(before.requests, 0)
        self.assertIn("NODELEASE_SIDECAR", os.environ)


if __name__ == "__main__":
    unittest.main()
