"""A policy in an environment, ready for pairs of episodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from legible.engines import Engine, Failed, Finished, InProcess, LocalProcesses, R, Shared
from legible.engines import Unit as AnyUnit
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation import Reference, Runner
from legible.evaluation.recorded import Repetition, find_repetition
from legible.evaluation.references import RANDOM_PLAY
from legible.evaluation.units import Kept, Setup, Unit, UnitResult, usual_rows
from legible.features import FeatureSpace, cut_choices, is_cut
from legible.play import adapt_policy, environment_for, stage_seeds
from legible.play.experiences import Experiences, ExperienceSetup, collect_unit, describe_features, join_experiences
from legible.policies import Policy
from legible.relations import MetamorphicRelation, RelationsArgument
from legible.settings import StudySettings
from legible.study import Progress, Study, load_policy_for, settings_for
from legible.study.choices import cut_experiences, read_relations
from legible.study.inputs import inspect_environment
from legible.study.running import StageRunner, run_within_limit
from legible.workbench.cache import UnitCache, cache_folder, content_key, prune_cache

SHOWN_EPISODES = 50
"""Episodes from which continuous actions are cut into regions and unnamed features get their kinds."""
RANDOM_EPISODES = 50
# Starting workers takes about as long as this many seconds of play.
_WARM_SECONDS = 4.0


class WarmEngine:
    """An engine that plays in this process for some seconds, and then with workers. Results are the same."""

    def __init__(self, workers: int | None = None, seconds: float = _WARM_SECONDS) -> None:
        self._inline, self._many = InProcess(), LocalProcesses(workers)
        self._left = seconds

    @property
    def workers(self) -> int | None:
        """Number of units that run at a time, once workers are there."""
        return self._many.workers

    def run(
        self,
        function: Callable[[Shared, AnyUnit], R],
        shared: Shared,
        units: Sequence[AnyUnit],
        *,
        time_limit: float | None = None,
    ) -> Iterator[Finished[R] | Failed]:
        """Call ``function(shared, unit)`` for every unit: see `legible.engines.Engine.run`."""
        done = 0
        while done < len(units) and self._left > 0.0 and time_limit is None:
            started = time.monotonic()
            for outcome in self._inline.run(function, shared, units[done : done + 1]):
                yield replace(outcome, index=done)
            self._left -= time.monotonic() - started
            done += 1
        if done < len(units):
            for outcome in self._many.run(function, shared, units[done:], time_limit=time_limit):
                yield replace(outcome, index=outcome.index + done)

    def __enter__(self) -> Self:
        self._many.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._many.__exit__(*error)


@dataclass(frozen=True)
class Arena:
    """One policy in one environment.

    Parameters
    ----------
    name, policy
        Name of the policy in sentences; the policy as it was loaded.
    environment, space, relations
        The environment that it plays, names of features and actions, and relations.
    fingerprint
        Changes when policy or environment behave differently; part of the keys of units.
    settings, seed
        Settings of play, limits of failures and time; the seed that decides the seeds of all episodes.
    engine, progress
        Where units run, and a function that is called with the progress.
    stores, folder, study
        The stores of units by kind; folder in which units are kept, and folder of a study whose units are used.
    """

    name: str
    policy: Policy
    environment: EnvironmentSpec
    space: FeatureSpace
    relations: tuple[MetamorphicRelation, ...]
    fingerprint: str
    settings: StudySettings
    seed: int
    engine: Engine
    progress: Progress | None
    stores: dict[str, UnitCache[Any]]
    folder: Path | None = None
    study: Path | None = None

    @cached_property
    def setup(self) -> Setup:
        """Policy, environment and settings, which all units share."""
        player = adapt_policy(self.policy, self.environment, self.space)
        return Setup(player, self.environment, (), self.settings.play, usual_rows(self.settings.play))

    def store(self, kept: Kept[Any]) -> UnitCache[Any]:
        """Return the store of a kind of units."""
        if kept.name not in self.stores:
            self.stores[kept.name] = UnitCache(kept, self.folder, () if self.study is None else (self.study,))
        return self.stores[kept.name]

    def runner(self, stage: str) -> Runner:
        """Return how units of a stage are run: on the engine, and no unit that is in the store."""
        return StageRunner(
            (stage,),
            0,
            engine=self.engine,
            store_of=self.store,
            fingerprint=self.fingerprint,
            time_limit=self.settings.time_limit or None,
            most_failed=self.settings.most_failed,
            progress=self.progress,
        )

    def random_mean(self, stage: str) -> float:
        """Return the mean return of random play, from a few episodes."""
        seeds = tuple(stage_seeds(self.seed, stage, 0, RANDOM_EPISODES))
        setup = replace(self.setup, treatments=(Reference(RANDOM_PLAY),))
        played: UnitResult = self.runner(stage)(setup, [Unit((0,) * len(seeds), seeds)])
        return float(played.played.returns.mean()) if len(played.played) else float("nan")


def check_pairing(arena: Arena, stage: str) -> Repetition:
    """Return how episodes are repeated to the bit; raise where the same seed does not give the same episode."""
    repetition = find_repetition(arena.setup, arena.seed, stage, arena.runner(stage))
    if not repetition.holds:
        raise LegibleError(
            f"{arena.environment.name}: the same seed does not give the same episode, so episodes cannot be compared "
            "in pairs. The environment or the policy draws random numbers that do not come from the seed of reset(). "
            "'legible check' shows where episodes differ."
        )
    return repetition


def open_arena(
    environment: str | EnvironmentSpec,
    policy: str | Path | Policy,
    *,
    name: str = "",
    relations: RelationsArgument = None,
    names: str | Path | FeatureSpace | None = None,
    features: str | None = None,
    policy_options: Mapping[str, str] | None = None,
    stochastic: bool = False,
    space: FeatureSpace | None = None,
    seed: int = 0,
    settings: StudySettings | None = None,
    engine: Engine | None = None,
    cache: bool = True,
    progress: Progress | None = None,
    allow_code: bool = True,
) -> Arena:
    """Return an `Arena`: a policy and its environment, loaded, checked and ready to play episodes.

    Parameters
    ----------
    environment, policy, relations, names, features, policy_options, seed, settings, progress, allow_code
        As for `legible.Study`.
    engine
        Where episodes run; by default this process.
    name
        Name of the policy in sentences; by default its path.
    stochastic
        Whether the policy's actions are drawn instead of taking the best one.
    space
        Features and actions of another policy, with which this one will be compared. Continuous actions are then cut
        into the same regions.
    cache
        Whether played episodes are kept in files for later commands.
    """
    # Load the policy; its files can name arguments and wrappers of the environment.
    spec = EnvironmentSpec(environment) if isinstance(environment, str) else environment
    loaded = load_policy_for(spec, policy, allow_code=allow_code, options=policy_options, features=features)
    spec = environment_for(loaded, spec)
    settings = settings or settings_for(spec)
    if stochastic:
        settings = replace(settings, play=replace(settings.play, sample=True))
    engine = engine or InProcess()

    # Check that both fit, and find the names of features and actions, and the symmetries of the task.
    info = inspect_environment(
        spec,
        loaded,
        names,
        features,
        relations,
        engine=engine,
        time_limit=settings.time_limit or None,
        masks=settings.play.masks,
    )

    # Episodes are kept under a key of the contents of policy and environment; policies that are code have no key.
    source = str(policy) if isinstance(policy, (str, Path)) else ""
    key = content_key(loaded, _file_of(source), info.environment) if cache else None
    folder = None if key is None else cache_folder()
    if folder is not None:
        prune_cache(folder)
    arena = Arena(
        name=name or source or "the policy",
        policy=loaded,
        environment=info.environment,
        space=info.space,
        relations=(),  # read below, when features and actions are final
        fingerprint=f"{key or ''} {info.fingerprint}",
        settings=settings,
        seed=seed,
        engine=engine,
        progress=progress,
        stores={},
        folder=folder,
    )

    # Some features and actions cannot be described without playing.
    named_space, has_guessed_kinds = describe_features(info.environment, info.names)
    if space is not None:
        if (space.names, len(space.groups)) != (named_space.names, len(named_space.groups)):
            raise LegibleError(
                f"{arena.name}: its features or actions differ from those of the first policy, so they cannot be "
                "compared. Use the same --wrap, --features and --names for both."
            )
        named_space = space  # described already, by the first policy
    elif has_guessed_kinds or not is_cut(named_space):
        # Kinds are guessed from observations, and continuous actions divided into regions where the policy acts.
        experiences = collect_some(arena, named_space, guess=has_guessed_kinds)
        named_space = cut_experiences(experiences, info.relations.texts).space
    relations_found = read_relations(info.relations.texts, info.space, named_space)
    return replace(arena, space=named_space, relations=relations_found)


def _file_of(source: str) -> str:
    from legible.policies.zoo import PREFIX, zoo_path  # noqa: PLC0415

    return str(zoo_path(source.removeprefix(PREFIX))) if source.startswith(PREFIX) else source


def arena_of(study: Study, *, progress: Progress | None = None, engine: Engine | None = None) -> Arena:
    """Return the policy of a study in its environment; the unguided episodes of its race are used again."""
    key = content_key(study.policy, str(study.folder / "policy.safetensors"), study.environment)
    study.collect()
    return Arena(
        name=study.policy_name or "the study's policy",
        policy=study.policy,
        environment=study.environment,
        space=study.space,
        relations=study.relations,
        fingerprint=study.fingerprint,
        settings=study.settings,
        seed=study.seed,
        engine=engine or InProcess(),
        progress=progress or study.progress,
        stores={},
        folder=None if key is None else cache_folder() / key,
        study=study.folder,
    )


def collect_some(
    arena: Arena, space: FeatureSpace | None = None, *, guess: bool = False, episodes: int = SHOWN_EPISODES
) -> Experiences:
    """Play a few episodes of the stage "experiences" and return what the policy saw and did."""
    space = space or arena.space
    player = adapt_policy(arena.policy, arena.environment, cut_choices(space))
    setup = ExperienceSetup.of(player, arena.environment, arena.settings.play)
    seeds = tuple(stage_seeds(arena.seed, "experiences", 0, episodes))
    what = "the first episodes of the policy"
    limit = arena.settings.time_limit or None
    if limit is None:
        columns = collect_unit(setup, seeds)
    else:
        columns = run_within_limit(arena.engine, collect_unit, setup, seeds, limit, what)
    experiences = join_experiences([columns], space)
    return experiences.with_guessed_kinds() if guess else experiences
