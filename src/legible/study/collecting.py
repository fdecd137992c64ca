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
    """Play one episode for every seed and return what was seen and done.

    A unit that fails is played again episode by episode; episodes that fail are left out, if they are few.

    Parameters
    ----------
    study
        The study whose engine, limits and folder are used.
    setup
        Policy, environment, and how it is played.
    stage
        The name of the stage, for progress and failures.
    episodes
        How many; by default as many as the settings of the study say.
    seeds_of
        The stage whose seeds are played; by default the same.
    folder
        Where units are kept until all are there; by default a folder of the study with the name of the stage.
    """
    settings, key, unit_episodes = study.settings, study.key, study.settings.play.unit_episodes
    seeds = stage_seeds(study.seed, seeds_of or stage, 0, episodes or settings.episodes)
    folder = folder or study.folder / stage
    units = [tuple(seeds[i : i + unit_episodes]) for i in range(0, len(seeds), unit_episodes)]
    parts = [folder / f"{i:04}.npz" for i in range(len(units))]
    space, guess = describe_features(setup.environment, study.names)
    folder.mkdir(exist_ok=True)
    missing = [i for i, part in enumerate(parts) if not part.exists()]
    count = ProgressCount(study.progress, stage, len(seeds))
    count.add(len(seeds) - sum(len(units[i]) for i in missing))
    failures = FailureLimit(settings.most_failed, stage, len(seeds))
    for i in sorted(set(range(len(parts))) - set(missing)):
        left = set(Experiences.load(parts[i], key).seeds.tolist())
        failures.add(*(FailedEpisode(guided=False, seed=s, error="failed before") for s in units[i] if s not in left))

    def by_episode(unit: tuple[int, ...]) -> Pieces[ExperienceSetup, tuple[int, ...]]:
        alone = replace(setup, policy=adapt_policy(setup.policy, rows=min(setup.batch, len(unit))))
        return Pieces(alone, [(seed,) for seed in unit], unit)

    for number, results in run_units_or_pieces(
        collect_unit,
        setup,
        [units[i] for i in missing],
        cut=by_episode,
        engine=study.engine,
        time_limit=settings.time_limit or None,
        failures=failures,
        problem="experiences cannot be collected",
    ):
        i, columns = missing[number], [one for one in results if one is not None]
        if not columns:
            raise UnitFailedError(
                f"experiences cannot be collected: all {len(units[i])} episodes of a unit of work failed."
            )
        join_experiences(columns, space).save(parts[i], key)
        count.add(len(units[i]))
    found = join_experiences([Experiences.load(part, key) for part in parts], space)
    for part in parts:
        part.unlink()
    folder.rmdir()
    return found.with_guessed_kinds() if guess else found
