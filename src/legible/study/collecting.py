"""Experiences of a study, collected in units of work: on its engine, within its time limit, kept as they come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from legible.engines import UnitFailedError
from legible.play import Experiences, adapt_policy, stage_seeds
from legible.play.experiences import ExperienceSetup, collect_unit, describe_features, join_experiences
from legible.play.failures import FailedEpisode, FailureLimit
from legible.play.runner import Pieces, run_units_or_pieces
from legible.study.running import ProgressCount

if TYPE_CHECKING:
    from legible.study.study import Study


def collect_in_units(
    study: Study,
    setup: ExperienceSetup,
    stage: str,
    *,
    episodes: int = 0,
    seeds_of: str = "",
    folder: Path | None = None,
) -> Experiences:
    """Return recorded episodes of the unguided policy: every observation, action and score, one episode per seed.

    Episodes are played in units (lists of seeds that one worker plays together), and each unit is kept in a file until
    all are there, so that a stopped run continues. A unit that fails is played again episode by episode; episodes that
    fail are left out, if they are few.

    Parameters
    ----------
    stage, seeds_of
        Name of the stage, for progress and failures; the stage whose seeds are played, by default the same.
    episodes
        Number of episodes; by default that of the study's settings.
    folder
        Folder of the unit files; by default one in the study's folder with the name of the stage.
    """
    settings, key, unit_episodes = study.settings, study.key, study.settings.play.unit_episodes
    seeds = stage_seeds(study.seed, seeds_of or stage, 0, episodes or settings.episodes)
    folder = folder or study.folder / stage
    units = [tuple(seeds[i : i + unit_episodes]) for i in range(0, len(seeds), unit_episodes)]
    unit_files = [folder / f"{i:04}.npz" for i in range(len(units))]
    space, guesses_kinds = describe_features(setup.environment, study.names)
    folder.mkdir(exist_ok=True)
    # Units that an earlier run has played: count their episodes, and those that failed then.
    missing_units = [i for i, file in enumerate(unit_files) if not file.exists()]
    count = ProgressCount(study.progress, stage, len(seeds))
    count.add(len(seeds) - sum(len(units[i]) for i in missing_units))
    failures = FailureLimit(settings.most_failed, stage, len(seeds))
    for i in sorted(set(range(len(units))) - set(missing_units)):
        recorded_seeds = set(Experiences.load(unit_files[i], key).seeds.tolist())
        failed_seeds = [seed for seed in units[i] if seed not in recorded_seeds]
        failures.add(*(FailedEpisode(guided=False, seed=seed, error="failed before") for seed in failed_seeds))

    def by_episode(unit: tuple[int, ...]) -> Pieces[ExperienceSetup, tuple[int, ...]]:
        """Cut a failed unit into episodes; the policy still sees batches of the same size, for the same bits."""
        one_by_one = replace(setup, policy=adapt_policy(setup.policy, rows=min(setup.batch, len(unit))))
        return Pieces(one_by_one, [(unit_seed,) for unit_seed in unit], unit)

    for played_index, results in run_units_or_pieces(
        collect_unit,
        setup,
        [units[i] for i in missing_units],
        cut=by_episode,
        engine=study.engine,
        time_limit=settings.time_limit or None,
        failures=failures,
        problem="experiences cannot be collected",
    ):
        i = missing_units[played_index]
        recordings = [result for result in results if result is not None]  # None: a failed episode
        if not recordings:
            raise UnitFailedError(
                f"experiences cannot be collected: all {len(units[i])} episodes that were played together failed. "
                "'legible check' says what is wrong with the environment."
            )
        join_experiences(recordings, space).save(unit_files[i], key)
        count.add(len(units[i]))
    # All units are there: join them, and delete the files, because the caller keeps the whole.
    experiences = join_experiences([Experiences.load(file, key) for file in unit_files], space)
    for file in unit_files:
        file.unlink()
    folder.rmdir()
    return experiences.with_guessed_kinds() if guesses_kinds else experiences
