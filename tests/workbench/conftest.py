"""A cache of its own for every test."""

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Keep units in the folder of the test."""
    monkeypatch.setenv("LEGIBLE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
