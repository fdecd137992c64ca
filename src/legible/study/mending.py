"""Mending in rounds: study a policy, distil what helped into its network, study that, until a round confirms nothing.

The folder holds ``round-1``, ``round-2``, … (each the folder of a study), ``network-1.safetensors``, … (the network of
each round, with its figures in a ``.json`` file of the same name), ``mended.safetensors`` (the best network),
``mend.json`` and ``report.html``.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock, Timeout

from legible.distillation import Distillation, RoundCheck
from legible.distillation.student import why_not_distilled
from legible.engines import Engine, LocalProcesses
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation import Sample
from legible.evaluation.figures import effects, figures
from legible.evaluation.statistics import Effect
from legible.evaluation.units import (
    RETURNS,
    UNGUIDED,
    Setup,
    UnitResult,
    cut_into_units,
    run_units,
    usual_rows,
)
from legible.files import DamagedFileError, read_json, sha256_of, write_json
from legible.formatting import confidence_interval, counted, number
from legible.play import adapt_policy, stage_seeds
from legible.policies import Policy, load_policy
from legible.rules import Rule, RuleSet, describe_rule_set
from legible.settings import DistillationSettings
from legible.study.distilling import distil, distillation_settings_for
from legible.study.folder import StudyFolder, UnitFiles
from legible.study.inputs import load_policy_for, read_inputs
from legible.study.running import Progress, ProgressCount, ignore_progress
from legible.study.study import Study

ROUNDS = 3


@dataclass(frozen=True)
class MendedRound:
    """Results of one round, as plain data.

    Parameters
    ----------
    number
        Number of the round, from 1.
    tested, rules
        Number of rule sets that were tested, and number of rules of the guided policy.
    confirmed
        The weaknesses that held-out seeds confirm, in words.
    came_back
        The confirmed weaknesses that an earlier round had confirmed already.
    guided
        Gain of the guided policy on the held-out seeds of the study: mean, low, high.
    distilled
        Result of `legible.distillation.Distillation.to_dict`; None if nothing was distilled.
    steps
        Environment steps of the study (`study_steps`) and of the distillation.
    """

    number: int
    tested: int
    rules: int
    confirmed: tuple[str, ...]
    came_back: tuple[str, ...]
    guided: Mapping[str, float]
    distilled: Mapping[str, Any] | None
    steps: int

    @property
    def helps(self) -> bool:
        """True if fresh seeds confirm a weakness, or that the rules together help."""
        return bool(self.confirmed) or (self.rules > 0 and self.guided["low"] > 0.0)

    @property
    def is_better(self) -> bool:
        """True if its network is significantly better than the policy that the round began with."""
        return self.distilled is not None and self.distilled["differences"]["distilled"]["mean"]["low"] > 0.0


@dataclass(frozen=True)
class Mending:
    """Results of distillation in rounds.

    Parameters
    ----------
    folder
        The folder of the mending.
    environment, policy_name, seed
        The environment, and the name of the policy and the seed that the mending began with.
    rounds
        The results of each round.
    results
        Episodes on common seeds that chose nothing: first of the policy, then of the network of every round with one.
    best
        The place of the best one in `results`, chosen on other seeds; 0 is the policy itself.
    stopped
        The reason why there are no more rounds, a sentence.
    """

    folder: Path
    environment: EnvironmentSpec
    policy_name: str
    seed: int
    rounds: tuple[MendedRound, ...]
    results: tuple[UnitResult, ...]
    best: int
    stopped: str

    def effect(self, place: int, against: int) -> Effect:
        """Return the effect of one network on the mean return, compared with another on the same seeds."""
        return self.effects(place, against)["mean"]

    def effects(self, place: int, against: int) -> dict[str, Effect]:
        """Return that effect by every objective."""
        return effects(self.results, self.results[place], self.results[against])

    @property
    def file(self) -> Path | None:
        """The file of the best network; None if the policy itself is best."""
        return self.folder / "mended.safetensors" if self.best else None

    def verdict(self) -> str:
        """Return the result in plain sentences."""
        means = [number(Sample.of(result).mean) for result in self.results]
        if not self.best:
            return f"No network is better than the policy, which scores {means[0]}. {self.stopped}"
        effect = self.effect(self.best, 0)
        difference = confidence_interval(effect.mean, effect.low, effect.high)
        doubt = "" if effect.low > 0.0 else "; the gain may be chance"
        return (
            f"The network of round {self.best} scores {means[self.best]}, the policy {means[0]}: {difference}{doubt}. "
            f"{self.stopped}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "folder": str(self.folder),
            "environment": self.environment.name,
            "policy": self.policy_name,
            "seed": self.seed,
            "verdict": self.verdict(),
            "stopped": self.stopped,
            "best": self.best,
            "file": None if self.file is None else str(self.file),
            "rounds": [asdict(found) for found in self.rounds],
            "networks": [self._network(place) for place in range(len(self.results))],
            "steps": sum(found.steps for found in self.rounds),
        }

    def _network(self, place: int) -> dict[str, Any]:
        """Return the figures of the policy (place 0) or of a network as plain data."""
        result = self.results[place]
        sample = Sample.of(result)
        other_figures = {name: figure._asdict() for name, figure in figures(result).items() if name != "mean"}
        against = {"against_base": 0, "against_last": place - 1} if place else {}
        return {
            "round": place,
            "mean": sample.mean,
            "error": sample.error,
            "episodes": len(result),
            **other_figures,
            **{name: asdict(self.effect(place, other)) for name, other in against.items()},
        }


def mend(
    folder: str | Path,
    environment: str | EnvironmentSpec | None = None,
    policy: str | Path | Policy | None = None,
    *,
    rounds: int | None = None,
    seed: int = 0,
    distillation: DistillationSettings | None = None,
    engine: Engine | None = None,
    trust: bool = False,
    progress: Progress = ignore_progress,
    on_round: Callable[[RoundCheck], None] | None = None,
    on_mended: Callable[[MendedRound], None] | None = None,
    on_study: Callable[[Study], object] | None = None,
    **study: Any,
) -> Mending:
    """Mend a policy in rounds and return the result: study it, distil its rules into its network, study that network.

    Distillation trains the network to act like the policy with rules. Mending ends after the last of `rounds`, when a
    round confirms neither a weakness nor that its rules together help, or when a network is not better than the policy
    that its round began with. Everything is kept in the folder: a mending that was stopped continues when `mend` is
    called again.

    Parameters
    ----------
    folder
        Where everything is kept. A folder that holds something else is refused.
    environment, policy
        The environment (its id, for instance) and the policy (its file, for instance); without them, the mending in
        the folder is continued.
    rounds
        Maximum number of rounds, by default 3; a mending that is continued keeps its own unless another is given.
    seed
        Random seed; the study of round k has seed + k - 1. A mending that is continued keeps its own.
    distillation
        Settings with which networks learn.
    engine
        Where episodes run; by default processes on all cores.
    trust
        Whether to run code that the folder of a mending names.
    progress, on_round, on_mended
        Called with the progress of episodes, with every round of learning, and with every round of mending.
    on_study
        Called with the finished study of each round: `legible.write_report`, for instance.
    study
        Further arguments of `legible.Study`, such as ``settings``.
    """
    root = Path(folder)
    if rounds is not None and rounds < 1:
        raise LegibleError(f"mending takes at least one round, got {rounds}.")
    # Continue the mending in the folder with the arguments that it began with.
    if environment is None or policy is None:
        earlier = _earlier_arguments(root, trust=trust)
        environment, policy, seed = earlier.pop("environment"), earlier.pop("policy"), earlier.pop("seed")
        distillation = distillation or read_mending(root).distillation
        study = {**earlier, **study}
    # Refuse a policy that cannot be distilled before its first study. Of a guided policy the network is distilled.
    spec = EnvironmentSpec(environment) if isinstance(environment, str) else environment
    study = {**study, "trust": trust}
    options = {name: study[name] for name in ("allow_code", "trust", "features") if name in study}
    loaded = load_policy_for(spec, policy, options=study.get("policy_options"), **options)
    problem = why_not_distilled(getattr(loaded, "network", loaded))
    if problem is not None:
        raise LegibleError(f"this policy cannot be mended: {problem}.")
    with _locked(root), engine or LocalProcesses() as running:
        rounds = _claim(root, seed, distillation, rounds)
        work = _Work(root, spec, policy, seed, distillation, running, progress, on_round, on_study, study)
        with _remove_files_if_refused(root):
            work.study(1)
        # Do rounds until there is a reason to stop. Rounds that the folder holds are only read.
        finished: list[MendedRound] = []
        stop_reason = ""
        while not stop_reason:
            finished.append(work.round(len(finished) + 1))
            if on_mended is not None:
                on_mended(finished[-1])
            stop_reason = _why_stopped(finished, rounds)
        return work.finish(loaded, tuple(finished), stop_reason)


def _earlier_arguments(place: Path, *, trust: bool) -> dict[str, Any]:
    """Return the arguments that a run in rounds began with."""
    if not (place / "mend.json").is_file() or not Study.is_in(place / "round-1"):
        raise LegibleError(f"{place}: holds no earlier rounds; give ENV and POLICY to begin.")
    name, arguments = read_inputs(StudyFolder(place / "round-1"), policy=None, trust=trust, most_failed=None)
    kept_policy = place / "round-1" / "policy.safetensors"
    # The study keeps a copy of the policy; a name such as zoo:NAME says more about its origin.
    if name.startswith("zoo:"):
        return {**arguments, "policy": name}
    return {**arguments, "policy": kept_policy} if kept_policy.exists() else arguments


def _claim(place: Path, seed: int, distillation: DistillationSettings | None, rounds: int | None) -> int:
    """Make ``mend.json``, or check that it belongs to the same mending; return the maximum number of rounds."""
    file = place / "mend.json"
    identity = {"seed": seed, "distillation": None if distillation is None else asdict(distillation)}
    if file.is_file():
        earlier = read_mending(place)
        if (earlier.seed, earlier.distillation) != (seed, distillation):
            raise LegibleError(
                f"{place}: holds rounds with another seed or other settings of distillation; use another folder."
            )
        rounds, identity = rounds or earlier.asked, earlier.document
    asked = rounds or ROUNDS
    write_json(file, {**identity, "asked": asked})
    return asked


class BegunMending(NamedTuple):
    """Content of ``mend.json``: seed, distillation settings and requested number of rounds; `document` is all of it."""

    seed: int
    distillation: DistillationSettings | None
    asked: int
    document: dict[str, Any]


def read_mending(place: Path) -> BegunMending:
    """Read the ``mend.json`` of a folder."""
    file, advice = place / "mend.json", "use another folder"
    kept = read_json(file, advice=advice)
    try:
        seed, known, asked = kept["seed"], kept["distillation"], kept["asked"]
        if not isinstance(seed, int) or not isinstance(asked, int) or asked < 1:
            raise TypeError("a whole number is expected")
        return BegunMending(seed, None if known is None else DistillationSettings(**known), asked, kept)
    except (KeyError, TypeError, LegibleError) as error:
        raise DamagedFileError(f"{file}: is damaged ({error}); {advice}.") from error


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Make the folder, refuse one with other content, and lock it against other processes."""
    has_files = place.exists() and any(path.name != "lock" for path in place.iterdir())
    if has_files and not (place / "mend.json").is_file():
        raise LegibleError(f"{place}: holds other files, not rounds of mending; use another folder.")
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LegibleError(f"{place}: cannot be made ({error.strerror}).") from error
    lock = FileLock(place / "lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise LegibleError(f"{place}: another process is mending here; wait until it ends.") from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _remove_files_if_refused(place: Path) -> Iterator[None]:
    """Remove the folder if the arguments are refused before the first study exists."""
    try:
        yield
    except LegibleError:
        if {path.name for path in place.iterdir()} <= {"lock", "mend.json"}:
            shutil.rmtree(place, ignore_errors=True)
        raise


def _why_stopped(finished: Sequence[MendedRound], rounds: int) -> str:
    """Return why no further round follows, as a sentence; "" if one does."""
    last = finished[-1]
    if not last.helps:
        return f"Round {last.number} confirms no weakness any more." if last.number > 1 else "No weakness is confirmed."
    if last.distilled is None:
        return f"In round {last.number} no composition of rules helped."
    if not last.is_better:
        return f"The network of round {last.number} is not shown to be better than the one that the round began with."
    if last.number < rounds:
        return ""
    return f"The limit of {counted(rounds, 'round')} is reached (--rounds allows more)."


@dataclass(frozen=True)
class _Work:
    """The rounds of a mending, in its folder."""

    place: Path
    environment: EnvironmentSpec
    policy: str | Path | Policy
    seed: int
    distillation: DistillationSettings | None
    engine: Engine
    progress: Progress
    on_round: Callable[[RoundCheck], None] | None
    on_study: Callable[[Study], object] | None
    study_arguments: Mapping[str, Any]
    confirmed: dict[int, list[RuleSet]] = field(default_factory=dict)

    def study(self, number: int) -> Study:
        """Return the study of a round."""
        policy = self.policy if number == 1 else self.network(number - 1)
        arguments = dict(self.study_arguments)
        if number > 1:
            arguments["policy_options"] = None  # of the policy that was given
        return Study(
            self.place / f"round-{number}",
            self.environment,
            policy,
            seed=self.seed + number - 1,
            engine=self.engine,
            progress=self.progress,
            **arguments,
        )

    def network(self, number: int) -> Path:
        """Return the file of the network of a round."""
        return self.place / f"network-{number}.safetensors"

    def round(self, number: int) -> MendedRound:
        """Return the results of a round, counted from 1; steps that the folder holds already are only read.

        A round is a study of the current policy and, if its rules help, a network that is trained to act like the
        policy with the rules.
        """
        study = self.study(number)
        improvement = study.improve()
        if self.on_study is not None:
            study.run()  # do the steps that only a report needs, too
            self.on_study(study)
        evaluation = study.evaluation
        confirmed = [verdict.rule_set for verdict in evaluation.confirmed]
        self.confirmed[number] = confirmed  # for later rounds
        effect = improvement.effect
        confirmed_before = [rule_set for earlier in range(1, number) for rule_set in self.confirmed[earlier]]
        came_back = [rule_set for rule_set in confirmed if _is_known(rule_set, confirmed_before)]
        result = MendedRound(
            number=number,
            tested=len(evaluation.verdicts),
            rules=len(improvement.composition),
            confirmed=tuple(describe_rule_set(rule_set, study.space, "advice") for rule_set in confirmed),
            came_back=tuple(describe_rule_set(rule_set, study.space, "advice") for rule_set in came_back),
            guided={"mean": effect.mean, "low": effect.low, "high": effect.high},
            distilled=None,
            steps=study_steps(study),
        )
        # Nothing was confirmed, or there are no rules to distil: this is the last round.
        if not result.helps or not result.rules:
            return result
        distilled = self._distil(study, number)
        return replace(result, distilled=distilled, steps=result.steps + distilled["steps"])

    def _distil(self, study: Study, number: int) -> dict[str, Any]:
        file = self.network(number)
        saved = file.with_suffix(".json")
        if saved.exists() and file.exists():
            return _read_figures(saved, sha256_of(file))
        found: Distillation = distil(
            study,
            file,
            settings=self.distillation,
            engine=self.engine,
            force=file.exists(),  # the run stopped between writing the network and its figures
            progress=self.progress,
            on_round=self.on_round,
        )
        write_json(saved, found.to_dict(), sha256_of(file))
        return found.to_dict()

    def finish(self, base: Policy, finished: tuple[MendedRound, ...], stop_reason: str) -> Mending:
        """Play the policy and all networks on common seeds, choose the best, and write and return the result.

        `base` is the policy that the mending began with, and `stop_reason` says why no further round follows.
        """
        networks = [self.network(result.number) for result in finished if result.distilled is not None]
        policies: list[Policy] = [base, *(load_policy(file) for file in networks)]
        study = self.study(1)
        # Played episodes are kept in files under a fingerprint of the policy (for a network, the checksum of its file).
        # A run that was stopped finds them there and does not play them again.
        fingerprints = [study.fingerprint, *(sha256_of(file) for file in networks)]
        players = list(zip(policies, fingerprints, strict=True))
        # Seeds of the first half choose the best network, seeds of the second give the reported figures.
        episodes = distillation_settings_for(self.distillation, study.environment).final_episodes
        seeds_of_halves = [stage_seeds(self.seed, "rounds", half * episodes, episodes) for half in range(2)]
        count = ProgressCount(self.progress, "rounds", 2 * len(policies) * episodes)
        choosing, reported = (
            [self._play(study, policy, fingerprint, seeds, count.add) for policy, fingerprint in players]
            for seeds in seeds_of_halves
        )
        best = int(np.argmax([float(np.nanmean(result.returns)) for result in choosing]))
        # Copy the best network, complete or not at all. 0 is the policy itself, which needs no copy; a copy of an
        # earlier run is removed.
        if best:
            unfinished = self.place / ".mended.part"
            shutil.copyfile(networks[best - 1], unfinished)
            unfinished.replace(self.place / "mended.safetensors")
        else:
            (self.place / "mended.safetensors").unlink(missing_ok=True)
        # A continued mending is given the policy that its folder keeps; the result names it as the user did at first.
        name = str(StudyFolder(study.folder).read()["about"]["policy"])
        mending = Mending(self.place, study.environment, name, self.seed, finished, tuple(reported), best, stop_reason)
        # The result replaces the file that `_claim` wrote. Its three entries are kept, because they are what continues
        # the mending later: "seed" and "distillation" must stay the same, and "asked" is the number of rounds that was
        # asked for, which a call without `rounds` takes again.
        begun = read_mending(self.place).document
        arguments = {key: begun[key] for key in ("seed", "distillation", "asked")}
        write_json(self.place / "mend.json", {**arguments, **mending.to_dict()})
        return mending

    def _play(
        self, study: Study, policy: Policy, fingerprint: str, seeds: Sequence[int], on_episodes: Callable[[int], None]
    ) -> UnitResult:
        """Return the unguided episodes of a policy on seeds; those that the folder holds are not played again."""
        play = study.settings.play
        player = adapt_policy(policy, study.environment, study.space)
        setup = Setup(player, study.environment, (), play, usual_rows(play))
        units = cut_into_units([UNGUIDED] * len(seeds), seeds, play.unit_episodes)
        return run_units(
            setup,
            units,
            engine=self.engine,
            store=UnitFiles(self.place / RETURNS.name, RETURNS.kind),
            fingerprint=hashlib.sha256(fingerprint.encode()).hexdigest(),
            time_limit=study.settings.time_limit or None,
            stage="rounds",
            on_episodes=on_episodes,
        )


def _read_figures(path: Path, key: str) -> dict[str, Any]:
    """Read the figures of the network of a round (`legible.distillation.Distillation.to_dict`)."""
    advice = "delete it and the network of the same name"
    kept = read_json(path, key, advice)
    try:
        float(kept["differences"]["distilled"]["mean"]["low"])
        int(kept["steps"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamagedFileError(f"{path}: is damaged (no {error}); {advice}.") from error
    return kept


def alike(one: Rule, two: Rule) -> bool:
    """Return whether two rules are the same apart from the exact bounds of their intervals.

    Polarity, action and features are the same, and the intervals of every feature overlap. Intervals come from the
    observations of a policy, so the intervals of two policies hardly ever agree to the last digit.
    """
    if (one.polarity, one.action, set(one.features)) != (two.polarity, two.action, set(two.features)):
        return False
    others = {condition.feature: condition for condition in two.conditions}
    pairs = [(condition, others[condition.feature]) for condition in one.conditions]
    return all(max(first.low, second.low) < min(first.high, second.high) for first, second in pairs)


def _is_known(rule_set: RuleSet, others: Sequence[RuleSet]) -> bool:
    """Return whether one of the others says the same: the rules that they were made from are alike."""
    rule, *other_rules = (each.source or each.rules[0] for each in (rule_set, *others))
    return any(alike(rule, other) for other in other_rules)


def study_steps(study: Study) -> int:
    """Return how many environment steps a study took up to the guided policy."""
    return int(study.experiences.lengths.sum()) + study.evaluation.steps + study.improvement.environment_steps
