"""Find out where a reinforcement-learning policy is weak, why, and mend it with rules, without training again.

Names are imported when they are first used. Environments that come with legible or a plug-in are registered with
Gymnasium as soon as both are imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.errors import LegibleError
from legible.imports import lazy_exports, when_imported

if TYPE_CHECKING:
    from legible.environments import EnvironmentSpec
    from legible.evaluation import evaluate
    from legible.features import FeatureSpace
    from legible.guidance import GuidedEnv, GuidedPolicy
    from legible.improvement import improve
    from legible.mining import mine
    from legible.mining.ripper import RipperClassifier
    from legible.play import collect, evaluate_policy
    from legible.policies import load_policy, save_policy
    from legible.relations import generalise, load_relations
    from legible.relations.check import check_relations
    from legible.report import write_report
    from legible.rules import Rule, RuleSet, parse_rule
    from legible.settings import StudySettings
    from legible.study import Study
    from legible.study.check import check_env
    from legible.study.distilling import distil
    from legible.study.mending import mend

__version__ = "0.1.0"
__all__, __getattr__, __dir__ = lazy_exports(__name__, "LegibleError", "__version__")


def _load_plugins() -> None:
    from legible.environments.domain_registry import load_plugins  # noqa: PLC0415 (once Gymnasium is there)

    load_plugins()


when_imported("gymnasium", _load_plugins)
