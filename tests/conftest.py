"""Settings of all tests: the same examples in every run, and no deadline on a busy machine."""

from hypothesis import settings

settings.register_profile("legible", derandomize=True, deadline=None)
settings.load_profile("legible")
