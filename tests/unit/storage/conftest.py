"""Here each table is made by the product, not copied."""

import pytest

from pipeline.storage import tables_on_disk


@pytest.fixture(autouse=True)
def tables_made(monkeypatch):
    monkeypatch.setattr(tables_on_disk, "_ensure_at", tables_on_disk._ensure_at.__wrapped__)
