"""Attempts to break legible: damaged files (`fuzz`), killed processes (`chaos`), errors in its sources (`mutate`).

``python -m lab.harness fuzz|chaos|mutate``. They use the small worlds of the tests.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

TESTS = str(Path(__file__).parents[2] / "tests")

# The processes that are started import the tests' worlds, too.
if TESTS not in sys.path:
    sys.path.append(TESTS)
if TESTS not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), TESTS)))
