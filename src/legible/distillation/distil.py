"""Distillation of a guided policy into a network without rules, evaluated on held-out seeds.

- `distil_policy`: trains and evaluates the network; `Distillation` is the result.
- `write_network`: a network as a ``.safetensors`` file, or as a zip that Stable-Baselines3 loads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from legible.distillation.checkpoint import DistillationCheckpoint
from legible.distillation.figures import BrokenRule, DistillationComparison, broken_rules
from legible.distillation.rounds import Player, Progress, RoundCheck, StudentLearner, best_round, learn_in_rounds
from legible.distillation.student import why_not_distilled
from legible.distillation.teacher import Teacher
from legible.engines import Engine, InProcess
from legible.environments import EnvironmentSpec, find_feature_map, resolve_names
from legible.errors import LegibleError
from legible.evaluation import Sample
from legible.evaluation.units import UnitResult, run_units
from legible.features import FeatureSpace
from legible.formatting import confidence_interval, number
from legible.guidance import GuidedPolicy
from legible.play import check_can_be_studied, one_thread, stage_seeds
from legible.policies import ActorPolicy, NetworkPolicy, Normalisation, Policy, save_normalisation, save_policy
from legible.settings import DistillationSettings, PlaySettings

SUFFIXES = (".zip", ".safetensors")
_RULE_EPISODES = 500  # evaluation episodes whose states show which rules are still broken


@dataclass(frozen=True)
class Distillation:
    """A network without rules, and its evaluation."""

    policy: NetworkPolicy | ActorPolicy  # the network
    comparison: DistillationComparison  # unguided policy, guided policy and network on held-out seeds
    rounds: tuple[RoundCheck, ...]  # evaluations after every round
    chosen: int  # number of the round that is kept
    rules: int  # number of rules of the guided policy
    broken: tuple[BrokenRule, ...]  # shares of states in which rules are broken, for rules that states trigger
    space: FeatureSpace  # names of features and actions
    steps: int  # environment steps of learning, without the final evaluation

    @property
    def still_broken(self) -> tuple[BrokenRule, ...]:
        """The rules that the network breaks in more than a tenth of the states that trigger them."""
        return tuple(rule for rule in self.broken if rule.is_broken)

    @property
    def is_better(self) -> bool:
        """True where the confidence interval of the gain over the unguided policy is above 0."""
        return self.comparison.gain.low > 0.0

    def verdict(self) -> str:
        """Return the result in plain sentences."""
        results = (self.comparison.distilled, self.comparison.base, self.comparison.guided)
        distilled, base, guided = (number(Sample.of(result).mean) for result in results)
        gain, kept = self.comparison.gain, self.comparison.kept
        means = f"The network without rules returns {distilled}; the unguided policy {base}, the guided one {guided}."
        difference = confidence_interval(gain.mean, gain.low, gain.high)
        if not self.is_better:
            return f"{means} It is not shown to be better than the unguided policy: {difference}."
        if kept.share is None:
            return f"{means} It is better than the unguided policy by {difference}, and the rules are not."
        interval = ""
        if kept.low is not None and kept.high is not None:
            interval = f" (95 % CI {number(100.0 * kept.low)} % to {number(100.0 * kept.high)} %)"
        return f"{means} It keeps {number(100.0 * kept.share)} % of the gain{interval}."

    def rules_sentence(self) -> str:
        """Return a sentence with the number of rules that the network still breaks."""
        broken, before = len(self.still_broken), sum(rule.was_broken for rule in self.broken)
        return (
            f"It breaks {broken} of {self.rules} rules in more than a tenth of the states that trigger them; the "
            f"unguided policy breaks {before}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "verdict": self.verdict(),
            **self.comparison.to_dict(),
            "rules": {
                "rules": self.rules,
                "broken": len(self.still_broken),
                "each": [rule.to_dict(self.space) for rule in self.broken],
            },
            "rounds": [asdict(check) for check in self.rounds],
            "chosen_round": self.chosen,
            "steps": self.steps,
        }


def _ignore(*_: Any) -> None:
    """Ignore progress."""


def distil_policy(
    guided: GuidedPolicy,
    environment: EnvironmentSpec,
    *,
    seed: int = 0,
    settings: DistillationSettings | None = None,
    play: PlaySettings | None = None,
    engine: Engine | None = None,
    time_limit: float | None = None,
    checkpoint: Path | None = None,
    force: bool = False,
    progress: Progress = _ignore,
    on_round: Callable[[RoundCheck], None] = _ignore,
) -> Distillation:
    """Return a network without rules that was trained to act like a guided policy, with its figures on held-out seeds.

    It has the architecture of the guided policy's network and starts from its weights. The same arguments give the same
    network to the bit on the same machine, with any engine.

    - `guided`, `environment`: the teacher, a network with rules that change some of its actions; and its environment.
    - `seed`: seed of all random numbers.
    - `settings`, `play`: settings of learning and of episodes. How rules act (their precedence and enforcement) is
      taken from the guided policy.
    - `engine`, `time_limit`: where episodes run, by default in this process; seconds after which a batch of them is
      abandoned.
    - `checkpoint`: a folder from which a stopped distillation resumes; the caller removes it. With `force`, that of
      another distillation is deleted instead of refused.
    - `progress`, `on_round`: called with the progress, and with the evaluation of each round.
    """
    settings = settings or DistillationSettings()
    play = replace(play or PlaySettings(), precedence=guided.precedence, enforce=guided.enforce)
    with one_thread(), engine or InProcess() as running:  # labels must not depend on the number of threads
        check_distillable(guided, environment)

        # Learn in rounds: the student plays, the teacher labels its states, and the student learns the labels (DAgger).
        teacher = Teacher(guided)
        saved = DistillationCheckpoint(checkpoint, _key(teacher, environment, seed, settings, play), force=force)
        player = Player(guided, environment, play, partial(run_units, engine=running, time_limit=time_limit))
        learner = StudentLearner(teacher, settings, seed, greedy=not play.sample)
        rounds = learn_in_rounds(learner, player, saved, settings, seed, progress=progress, on_round=on_round)
        chosen = best_round(rounds)
        learner.student.load(rounds[chosen].weights)
        network = learner.student.policy()
        # Play the unguided policy, the guided one (for which None stands) and the network on held-out seeds. A stopped
        # distillation has some of these results in its checkpoint.
        seeds = stage_seeds(seed, "distilled", first=0, count=settings.final_episodes)
        results: dict[str, UnitResult] = {}
        policies: dict[str, Policy | None] = {"base": teacher.network, "guided": None, "distilled": network}
        for name, policy in policies.items():
            result = saved.result(name)
            if result is None:
                result = player.returns(policy, seeds)
                saved.save_result(name, result)
            results[name] = result
            progress("distilled", len(results) * len(seeds), len(policies) * len(seeds))
        comparison = DistillationComparison(**results)
        # How often the network does not follow each rule in the states that it visits.
        broken = broken_rules(teacher, player.record(network, seeds[:_RULE_EPISODES]))
    # The metadata of the policy file that the network is saved to, without the entries about rules ("legible.…").
    sample = Sample.of(comparison.distilled)
    metadata = {
        **{name: value for name, value in network.metadata.items() if not name.startswith("legible.")},
        "training": "distilled",
        "distilled": {"rules": len(guided.rules), "seed": seed, "kept": comparison.kept.share},
        "evaluation": {"mean_return": sample.mean, "standard_error": sample.error, "episodes": sample.episodes},
    }
    return Distillation(
        policy=replace(network, metadata=metadata, env_id=network.env_id or environment.name),
        comparison=comparison,
        rounds=tuple(RoundCheck.of(number, snapshot) for number, snapshot in enumerate(rounds, start=1)),
        chosen=chosen + 1,  # rounds are numbered from 1
        rules=len(guided.rules),
        broken=broken,
        space=guided.space,
        steps=rounds[-1].steps,
    )


def check_distillable(guided: GuidedPolicy, environment: EnvironmentSpec) -> None:
    """Raise unless a guided policy has rules and a network, and plays in this environment."""
    if not len(guided.rules):
        raise LegibleError("there are no rules to distil: the guided policy is the unguided one.")
    problem = why_not_distilled(guided.network)
    if problem is not None:
        raise LegibleError(f"this policy cannot be distilled: {problem}.")
    env = environment.make()
    try:
        check_can_be_studied(guided.network, env)
        names = guided.space.names if find_feature_map(environment) else resolve_names(env).space.names
    finally:
        env.close()
    if len(names) != len(guided.space.names):
        raise LegibleError(
            f"the guided policy's rules have {len(guided.space.names)} features, but {environment.name} has "
            f"{len(names)}; give the policy's own environment."
        )


def _key(
    teacher: Teacher, environment: EnvironmentSpec, seed: int, settings: DistillationSettings, play: PlaySettings
) -> str:
    """Return a digest of everything that determines the result of a distillation."""
    digest = hashlib.sha256()
    guided: Policy = teacher.guided
    while isinstance(guided, GuidedPolicy):
        digest.update(json.dumps([guided.rules.to_dict(), guided.space.to_dict(), guided.precedence]).encode())
        guided = guided.policy
    for weights in StudentLearner(teacher, settings, seed, greedy=True).student.weights():
        digest.update(weights.tobytes())
    digest.update(repr((environment, seed, asdict(settings), asdict(play))).encode())
    return digest.hexdigest()


def check_file_name(path: Path) -> None:
    """Raise unless a file's name has a suffix of networks, and no folder has it."""
    if path.suffix not in SUFFIXES:
        raise LegibleError(
            f"{path}: a network is written as .zip (for Stable-Baselines3) or .safetensors, not '{path.suffix}'."
        )
    if path.is_dir():
        raise LegibleError(f"{path}: is a folder; give the name of a file.")


def check_output(path: Path, policy: Policy) -> None:
    """Raise unless a policy's network can be written to a file of this name."""
    check_file_name(path)
    if path.suffix == ".zip":
        from legible.training import TrainingError, check_exported  # noqa: PLC0415 (they need Stable-Baselines3)

        try:
            check_exported(policy)
        except TrainingError as error:
            raise LegibleError(f"{path}: cannot be a zip of Stable-Baselines3, use .safetensors ({error})") from error


def write_network(policy: NetworkPolicy | ActorPolicy, path: Path) -> list[Path]:
    """Write a network as a ``.safetensors`` file or as a zip for Stable-Baselines3, and return the files.

    A zip cannot hold the normalisation of observations: it is written next to it, as by ``legible train``.
    """
    check_output(path, policy)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".safetensors":
        return [save_policy(policy, path)]
    from legible.training import export_sb3  # noqa: PLC0415 (it needs Stable-Baselines3)

    written = [export_sb3(replace(policy, normalisation=None), path)]
    if isinstance(policy.normalisation, Normalisation):
        written.append(save_normalisation(policy.normalisation, path.with_suffix(".normalisation.npz")))
    return written
