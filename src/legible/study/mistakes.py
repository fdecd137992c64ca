"""The step of a study that looks for single decisions that cost most.

- `LooksForMistakes`: gives a study `find_mistakes` and `mistakes`.
- `RolloutFiles`: rollouts on disk, a file for each unit, there whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from legible.engines import Engine
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation import FailureLimit
from legible.features import FeatureSpace
from legible.files import DamagedFileError, read_arrays, write_arrays
from legible.hypotheses import DecisionGains, source_names
from legible.mistakes import Mistakes, RolloutRunner, Rollouts, RolloutSetup, Search, find_mistakes, plan_decisions
from legible.mistakes.decisions import choices_in
from legible.mistakes.finding import EXACT_ROLLOUTS
from legible.play import Experiences, FoundWay, copies_rows, find_way, stage_seeds
from legible.play.experiences import ExperienceSetup
from legible.policies import Policy
from legible.settings import StudySettings
from legible.study.collecting import collect_in_units
from legible.study.running import NoEngine, Progress, ProgressCount

T = TypeVar("T")


class RolloutFiles(MutableMapping[str, Rollouts]):
    """Rollouts as files of a folder, one a unit; every file carries its key and a checksum."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.npz"

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._path(key).exists()

    def __getitem__(self, key: str) -> Rollouts:
        path, advice = self._path(key), "delete it and run the study again"
        try:
            arrays = read_arrays(path, key, advice)
        except FileNotFoundError:
            raise KeyError(key) from None
        try:
            return Rollouts(arrays["returns"], arrays["steps"])
        except KeyError as error:
            raise DamagedFileError(f"{path}: is damaged (no {error}); {advice}.") from error

    def __setitem__(self, key: str, rollouts: Rollouts) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_arrays(self._path(key), rollouts._asdict(), key)

    def __delitem__(self, key: str) -> None:
        self._path(key).unlink()

    def __iter__(self) -> Iterator[str]:
        return (path.stem for path in self._folder.glob("*.npz"))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class LooksForMistakes:
    """What a study does about single decisions; see `legible.Study` for the attributes."""

    policy: Policy
    environment: EnvironmentSpec
    settings: StudySettings
    seed: int
    engine: Engine
    progress: Progress
    fingerprint: str
    _names: FeatureSpace | None
    _early_space: FeatureSpace
    _reading: bool

    if TYPE_CHECKING:

        @property
        def folder(self) -> Path: ...  # noqa: D102 (only its type)
        @property
        def _key(self) -> str: ...
        def _do(self, step: str, work: Callable[[], T]) -> T: ...
        def _read(self, step: str, work: Callable[[], T]) -> T: ...
        def _refuse_if_reading(self, what: str) -> None: ...
        def _player(self) -> Policy: ...
        def collect(self) -> Experiences: ...  # noqa: D102
        @property
        def space(self) -> FeatureSpace: ...  # noqa: D102

    def find_mistakes(self) -> Mistakes:
        """Look for single decisions in which another choice is better beyond doubt; independent of all other steps."""
        if not self.has_mistakes and self.way_of_branching().way is not None:
            if not self._early_space.is_discrete:
                self.collect()  # what the policy does decides how continuous actions are cut
            self._do("mistakes experiences", self._record_decisions)
        return self._do("mistakes", self._find_mistakes)

    @property
    def mistakes(self) -> Mistakes:
        """Single decisions in which another choice is better beyond doubt."""
        return self._read("mistakes", self._find_mistakes)

    @property
    def has_mistakes(self) -> bool:
        """Whether mistakes have been looked for."""
        return (self.folder / "mistakes.json").exists()

    @property
    def decisions(self) -> Experiences:
        """The recorded episodes whose decisions were looked at."""
        return self._read("mistakes experiences", self._record_decisions)

    @property
    def learns_from_mistakes(self) -> bool:
        """Whether rule sets that are tested come from single decisions, too."""
        return "mistakes" in source_names(self.settings.sources)

    def decision_gains(self) -> DecisionGains | None:
        """What other choices are worth at the decisions that were looked at; None where none could be."""
        found, planned = self.find_mistakes(), _search(self)
        if isinstance(planned, Mistakes):
            return None
        one_future = planned.way.futures == "cannot be reseeded"
        count = 1 if one_future else EXACT_ROLLOUTS if found.is_exact else self.settings.mistakes.rollouts
        return planned.search.gains(planned.runner, count)

    def looks_for_mistakes(self) -> bool:
        """Whether a whole run looks for mistakes: the settings say always, or it is fast."""
        when = self.settings.mistakes.when
        return when == "always" or (when == "fast" and copies_rows(self.environment))

    def rollout_setup(self) -> RolloutSetup:
        """What all rollouts of the study share."""
        found = self.way_of_branching()
        if found.way is None:
            raise LegibleError(f"single decisions cannot be looked at: {found.problem}")
        future: Any = "same" if found.futures == "cannot be reseeded" else "new"
        return RolloutSetup(self._player(), self.environment, found.way, future, self.settings.play)

    def way_of_branching(self) -> FoundWay:
        """How the environment is brought to a decision."""
        return find_way(self.environment, time_limit=self.settings.time_limit or None)

    def _record_decisions(self) -> Experiences:
        path = self.folder / "mistakes.npz"
        if not path.exists():
            self._refuse_if_reading("no decisions have been recorded")
            play = self.settings.play
            found = collect_in_units(
                ExperienceSetup(
                    self._player(), self.environment, play.epsilon, play.sample, play.batch, play.step_limit
                ),
                stage_seeds(self.seed, "mistakes", 0, self.settings.mistakes.episodes),
                self._names,
                unit_episodes=play.unit_episodes,
                engine=self.engine,
                time_limit=self.settings.time_limit or None,
                most_failed=self.settings.most_failed,
                folder=self.folder / "mistakes",
                key=self._key,
                progress=self.progress,
                stage="mistakes",
            )
            found = found if found.space.is_discrete else found.with_choices(self.space)
            found.save(path, self._key)
        return Experiences.load(path, self._key)

    def _find_mistakes(self) -> Mistakes:
        path = self.folder / "mistakes.json"
        if not path.exists():
            self._refuse_if_reading("no mistakes have been looked for")
            _look(self).save(path, self._key)
        return Mistakes.load(path, self._key)


class _Search(NamedTuple):
    """What is needed to look for mistakes."""

    search: Search
    runner: RolloutRunner
    way: FoundWay
    greedy: bool


def _search(study: LooksForMistakes) -> _Search | Mistakes:
    """Plan the search; where there is nothing to search, say why."""
    found, settings = study.way_of_branching(), study.settings.mistakes
    if found.way is None:
        return Mistakes(problem=f"single decisions cannot be looked at: {found.problem}")
    experiences, play = study.decisions, study.settings.play
    greedy = not play.sample and play.epsilon == 0
    exact = found.futures == "cannot be reseeded" or (found.futures == "nothing random" and greedy)
    choices = choices_in(experiences.space)
    count, problem = plan_decisions(experiences, settings, choices, way=found.way, exact=exact)
    if problem:
        return Mistakes(branching=found.way, problem=problem)
    search = Search.plan(experiences, count, seed=study.seed)
    progress = ProgressCount(None if study._reading else study.progress, "mistakes rollouts", 0)
    runner = RolloutRunner(
        study.rollout_setup(),
        search.points,
        seed=study.seed,
        engine=NoEngine(study.folder) if study._reading else study.engine,
        store=RolloutFiles(study.folder / "rollouts"),
        fingerprint=study.fingerprint,
        time_limit=study.settings.time_limit or None,
        failures=FailureLimit(study.settings.most_failed, "mistakes rollouts"),
        on_plan=progress.expect,
        on_rollouts=progress.add,
    )
    return _Search(search, runner, found, greedy)


def _look(study: LooksForMistakes) -> Mistakes:
    planned = _search(study)
    if isinstance(planned, Mistakes):
        return planned
    search, runner, way, greedy = planned
    settings, alpha = study.settings.mistakes, study.settings.evaluation.alpha
    mistakes = find_mistakes(
        search, runner, runner.futures, way, greedy=greedy, settings=settings, alpha=alpha, seed=study.seed
    )
    return replace(mistakes, steps_played=runner.steps_played)
