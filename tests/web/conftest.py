"""The small bank of the page's tests."""

from __future__ import annotations

from tests.page.conftest import bank

__all__ = ["bank"]
