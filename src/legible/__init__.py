"""Find out where a reinforcement-learning policy is weak, why, and mend it with rules, without training again.

Names are imported when they are first used; the environments are registered with Gymnasium as soon as both are
imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from legible.environments.registration import register_envs
from legible.errors import LegibleError
from legible.imports import lazy_names, when_imported

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
__all__ = [
    "EnvironmentSpec",
    "FeatureSpace",
    "GuidedEnv",
    "GuidedPolicy",
    "LegibleError",
    "RipperClassifier",
    "Rule",
    "RuleSet",
    "Study",
    "StudySettings",
    "__version__",
    "check_env",
    "check_relations",
    "collect",
    "distil",
    "evaluate",
    "evaluate_policy",
    "generalise",
    "improve",
    "load_policy",
    "load_relations",
    "mend",
    "mine",
    "parse_rule",
    "save_policy",
    "write_report",
]

__getattr__ = lazy_names(
    __name__,
    {
        "environments": ("EnvironmentSpec",),
        "evaluation": ("evaluate",),
        "features": ("FeatureSpace",),
        "guidance": ("GuidedEnv", "GuidedPolicy"),
        "improvement": ("improve",),
        "mining": ("mine",),
        "mining.ripper": ("RipperClassifier",),
        "play": ("collect", "evaluate_policy"),
        "policies": ("load_policy", "save_policy"),
        "relations": ("generalise", "load_relations"),
        "relations.check": ("check_relations",),
        "report": ("write_report",),
        "rules": ("Rule", "RuleSet", "parse_rule"),
        "settings": ("StudySettings",),
        "study": ("Study",),
        "study.check": ("check_env",),
        "study.distilling": ("distil",),
        "study.mending": ("mend",),
    },
)

when_imported("gymnasium", register_envs)
