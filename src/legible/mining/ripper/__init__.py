"""RIPPER (Cohen 1995): rules from examples, each a conjunction of conditions on features.

- `RipperClassifier`: a scikit-learn classifier.
- `RipperRule`, `RipperCondition`: the learned rules.
- `learn_rules`: the two-class learner on integer codes; `RipperSettings`: its settings.
- `RipperError`: invalid data or parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.imports import lazy_exports

if TYPE_CHECKING:
    from legible.mining.ripper.classifier import RipperClassifier
    from legible.mining.ripper.learner import RipperError, RipperSettings, learn_rules
    from legible.mining.ripper.rules import RipperCondition, RipperRule

__all__, __getattr__, __dir__ = lazy_exports(__name__)
