"""Settings of all tests: the same examples in every run, and no deadline on a busy machine."""

import signal

from hypothesis import settings

# A shell that runs the tests in the background has them ignore Ctrl-C, and every process that they start inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("legible", derandomize=True, deadline=None)
settings.load_profile("legible")
