"""From a guided policy to a network without rules, with figures on fresh seeds.

- `distil_policy`: does it; `Distillation` is what comes of it.
- `write_network`: a network as a ``.safetensors`` file, or as a zip that Stable-Baselines3 loads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
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
from legible.environments import EnvironmentSpec, feature_map_of, resolve_names
from legible.errors import LegibleError
from legible.evaluation import Sample
from legible.evaluation.units import UnitResult, run_units
from legible.features import FeatureSpace
from legible.formatting import confidence_interval, number
from legible.guidance import GuidedPolicy
from legible.play import check_studied, one_thread, stage_seeds
from legible.policies import ActorPolicy, NetworkPolicy, Normalisation, Policy, save_normalisation, save_policy
from legible.settings import DistillationSettings, PlaySettings

SUFFIXES = (".zip", ".safetensors")
_OURS = "legible."
# Episodes of the quoted figures whose states say which rules are still broken.
_RULE_EPISODES = 500


@dataclass(frozen=True)
class Distillation:
    """A network without rules, and what it is worth.

    Parameters
    ----------
    policy
        The network.
    comparison
        The policy, the guided policy and the network on fresh seeds.
    rounds
        How far it was after every round, on held-out seeds.
    chosen
        Number of the round that is kept.
    rules
        How many rules the guided policy has.
    broken
        How each of them that states trigger fares without being there.
    space
        Names of features and actions.
    steps
        Environment steps that learning took; those of the quoted figures are not among them.
    """

    policy: NetworkPolicy | ActorPolicy
    comparison: DistillationComparison
    rounds: tuple[RoundCheck, ...]
    chosen: int
    rules: int
    broken: tuple[BrokenRule, ...]
    space: FeatureSpace
    steps: int

    @property
    def still_broken(self) -> tuple[BrokenRule, ...]:
        """The rules that the network breaks in more than a tenth of the states that trigger them."""
        return tuple(rule for rule in self.broken if rule.is_broken)

    @property
    def is_better(self) -> bool:
        """Whether the network is better than the policy that it started from, beyond doubt."""
        return self.comparison.gain.low > 0.0

    def verdict(self) -> str:
        """Say in plain sentences what the network is worth."""
        base, guided, distilled = (
            number(Sample.of(result).mean)
            for result in (self.comparison.base, self.comparison.guided, self.comparison.distilled)
        )
        gain, kept = self.comparison.gain, self.comparison.kept
        said = (
            f"The network without rules returns {distilled}; the policy that it started from {base}, guided {guided}."
        )
        difference = confidence_interval(gain.mean, gain.low, gain.high)
        if not self.is_better:
            return f"{said} It is not shown to be better than the policy: {difference}."
        if kept.share is None:
            return f"{said} It is better than the policy by {difference}, and the rules are not."
        interval = (
            "" if kept.low is None or kept.high is None else f" (95 % CI {_share(kept.low)} to {_share(kept.high)})"
        )
        return f"{said} It keeps {_share(kept.share)} of the gain{interval}."

    def rules_sentence(self) -> str:
        """Say how many rules the network still breaks."""
        broken, before = len(self.still_broken), sum(rule.was_broken for rule in self.broken)
        return (
            f"It breaks {broken} of {self.rules} rules in more than a tenth of the states that trigger them; the policy"
            f" that it started from breaks {before}."
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


def _share(value: float) -> str:
    """A share of a gain, which may be more than all of it or less than nothing."""
    return f"{number(100.0 * value)} %"


def _ignore(*_: Any) -> None:
    """Told, and nobody listens."""


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
    """Make a network without rules that does what a guided policy does.

    It has the architecture of the guided policy's network and starts from its weights. The same arguments give the same
    network to the bit on the same machine, whatever the engine.

    Parameters
    ----------
    guided
        The guided policy.
    environment
        Where it plays.
    seed
        Decides everything that is random.
    settings
        How it learns.
    play
        How episodes are played; precedence and enforcement are those of the guided policy.
    engine, time_limit
        Where episodes run, this process by default, and the seconds after which a unit of them is given up.
    checkpoint
        A folder to go on from when it is stopped; the caller removes it.
    force
        Whether a checkpoint of another distillation is thrown away instead of refused.
    progress, on_round
        Who is told how far it is.
    """
    settings = settings or DistillationSettings()
    play = replace(play or PlaySettings(), precedence=guided.precedence, enforce=guided.enforce)
    with one_thread(), engine or InProcess() as running:  # labels, too, must not depend on how many there are
        check_distillable(guided, environment)
        teacher = Teacher(guided)
        saved = DistillationCheckpoint(checkpoint, _key(teacher, environment, seed, settings, play), force=force)
        player = Player(guided, environment, play, partial(run_units, engine=running, time_limit=time_limit))
        learner = StudentLearner(teacher, settings, seed, greedy=not play.sample)
        rounds = learn_in_rounds(learner, player, saved, settings, seed, progress=progress, on_round=on_round)
        chosen = best_round(rounds)
        learner.student.load(rounds[chosen].weights)
        network = learner.student.policy()
        comparison = _compare(network, teacher, player, saved, seed, settings, progress)
        seeds = stage_seeds(seed, "distilled", 0, min(_RULE_EPISODES, settings.final_episodes))
        broken = broken_rules(teacher, player.record(network, seeds))
    return Distillation(
        policy=_described(network, guided, environment, comparison, seed),
        comparison=comparison,
        rounds=tuple(RoundCheck.of(place, one) for place, one in enumerate(rounds, start=1)),
        chosen=chosen + 1,
        rules=len(guided.rules),
        broken=broken,
        space=guided.space,
        steps=rounds[-1].steps,
    )


def check_distillable(guided: GuidedPolicy, environment: EnvironmentSpec) -> None:
    """Raise unless a guided policy has rules and a network, and plays in this environment."""
    if not len(guided.rules):
        raise LegibleError("there are no rules to distil: the guided policy is the policy itself.")
    problem = why_not_distilled(guided.network)
    if problem is not None:
        raise LegibleError(f"this policy cannot be distilled: {problem}.")
    env = environment.make()
    try:
        check_studied(guided.network, env)
        names = guided.space.names if feature_map_of(environment) else resolve_names(env).space.names
    finally:
        env.close()
    if len(names) != len(guided.space.names):
        raise LegibleError(
            f"the guided policy's rules speak of {len(guided.space.names)} features, but {environment.name} has "
            f"{len(names)}: they do not belong together."
        )


def _key(
    teacher: Teacher, environment: EnvironmentSpec, seed: int, settings: DistillationSettings, play: PlaySettings
) -> str:
    """Say which distillation it is: everything that decides what comes of it."""
    digest = hashlib.sha256()
    guided: Policy = teacher.guided
    while isinstance(guided, GuidedPolicy):
        digest.update(json.dumps([guided.rules.to_dict(), guided.space.to_dict(), guided.precedence]).encode())
        guided = guided.policy
    for weights in StudentLearner(teacher, settings, seed, greedy=True).student.weights():
        digest.update(weights.tobytes())
    digest.update(repr((environment, seed, asdict(settings), asdict(play))).encode())
    return digest.hexdigest()


def _compare(
    network: Policy,
    teacher: Teacher,
    player: Player,
    saved: DistillationCheckpoint,
    seed: int,
    settings: DistillationSettings,
    progress: Progress,
) -> DistillationComparison:
    """Play the three on fresh seeds."""
    seeds = stage_seeds(seed, "distilled", 0, settings.final_episodes)
    known: dict[str, UnitResult] = {}
    players: Mapping[str, Policy | None] = {"base": teacher.network, "guided": None, "distilled": network}
    for done, (name, policy) in enumerate(players.items(), start=1):
        found = saved.result(name)
        if found is None:
            found = player.returns(policy, seeds)
            saved.save_result(name, found)
        known[name] = found
        progress("distilled", done * len(seeds), len(players) * len(seeds))
    return DistillationComparison(known["base"], known["guided"], known["distilled"])


def _described(
    network: NetworkPolicy | ActorPolicy,
    guided: GuidedPolicy,
    environment: EnvironmentSpec,
    comparison: DistillationComparison,
    seed: int,
) -> NetworkPolicy | ActorPolicy:
    """The network with the metadata of the policy that it started from, but for what is no longer true."""
    sample = Sample.of(comparison.distilled)
    kept = {name: value for name, value in network.metadata.items() if not name.startswith(_OURS)}
    metadata = {
        **kept,
        "training": "distilled",
        "distilled": {"rules": len(guided.rules), "seed": seed, "kept": comparison.kept.share},
        "evaluation": {"mean_return": sample.mean, "standard_error": sample.error, "episodes": sample.episodes},
    }
    return replace(network, metadata=metadata, env_id=network.env_id or environment.name)


def check_file_name(path: Path) -> None:
    """Raise unless a file's name says how a network is to be written, and no folder has it."""
    if path.suffix not in SUFFIXES:
        raise LegibleError(
            f"{path}: a network is written as .zip (for Stable-Baselines3) or .safetensors, not '{path.suffix}'."
        )
    if path.is_dir():
        raise LegibleError(f"{path}: is a folder; give the name of a file.")


def check_output(path: Path, policy: Policy) -> None:
    """Raise unless a network can be written to a file of this name."""
    check_file_name(path)
    if path.suffix == ".zip":
        from legible.training import TrainingError, check_exported  # noqa: PLC0415 (they need Stable-Baselines3)

        try:
            check_exported(policy)
        except TrainingError as error:
            raise LegibleError(f"{path}: cannot be a zip of Stable-Baselines3, use .safetensors ({error})") from error


def write_network(policy: NetworkPolicy | ActorPolicy, path: Path) -> list[Path]:
    """Write a network as a ``.safetensors`` file or as a zip for Stable-Baselines3; returns the files.

    A zip cannot hold how observations are normalised: that lies beside it, as after ``legible train``.
    """
    check_output(path, policy)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".safetensors":
        return [save_policy(policy, path)]
    from legible.training import export_sb3  # noqa: PLC0415 (it needs Stable-Baselines3, which few have)

    written = [export_sb3(replace(policy, normalisation=None), path)]
    if isinstance(policy.normalisation, Normalisation):
        written.append(save_normalisation(policy.normalisation, path.with_suffix(".normalisation.npz")))
    return written
