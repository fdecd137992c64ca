"""Find out where a reinforcement-learning policy is weak, why, and fix it with rules, without retraining.

The most used names:

- `Study`: mines rules from a policy, finds weaknesses and composes rules that help; `Study.open` reads one again.
- `StudySettings`: every number of a study; ``StudySettings.quick()`` has small budgets.
- `write_report`: writes the HTML report of a study.
- `load_policy`: loads a policy from Stable-Baselines3, CleanRL, PyTorch, ONNX or safetensors files, or a function.
- `try_rule`: tells whether a rule of your own helps a policy, harms it, or has no effect.
- `check_env`: tests whether an environment is fit for a study.
- `GuidedPolicy`, `GuidedEnv`: a policy guided by rules, and an environment that applies them.
- `distil`, `mend`: train a network without rules to act like a guided policy, once or in rounds.
- `collect`, `mine`, `generalise`, `evaluate`, `improve`: the steps of the paper as functions.
- `Rule`, `RuleSet`, `parse_rule`: rules as values and from texts such as ``"-North <- not open.north"``.
- `load_relations`, `check_relations`: symmetries of a task, and a test whether an environment agrees.

Names are imported on first use. Environments of legible and of plug-ins are registered with Gymnasium as soon as both
are imported.
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
    from legible.workbench import try_rule

__version__ = "0.1.0"
__all__, __getattr__, __dir__ = lazy_exports(__name__, "LegibleError", "__version__")


def _load_plugins() -> None:
    from legible.environments.domain_registry import load_plugins  # noqa: PLC0415 (once Gymnasium is there)

    load_plugins()


when_imported("gymnasium", _load_plugins)
