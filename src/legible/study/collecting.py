"""Experiences of a study, collected in units of work: on its engine, within its time limit, kept as they come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from legible.engines import Engine, Failed, UnitFailedError
from legible.features import FeatureSpace
from legible.play import Experiences
from legible.play.experiences import ExperienceSetup, collect_unit, describe_features, join_experiences
from legible.study.running import Progress, ProgressCount


def collect_in_units(
    setup: ExperienceSetup,
    seeds: Sequence[int],
    names: FeatureSpace | None,
    *,
    unit_episodes: int,
    engine: Engine,
    time_limit: float | None,
    folder: Path,
    key: str,
    progress: Progress,
) -> Experiences:
    """Play one episode for every seed and return what was seen and done.

    Parameters
    ----------
    setup
        Policy, environment, and how it is played.
    seeds
        Of the episodes.
    names
        Names of features and actions; None for those that the environment brings along.
    unit_episodes
        Episodes in a unit of work.
    engine, time_limit
        Where units run, and the seconds after which one is given up.
    folder, key
        Where units are kept until all are there, and what they belong to.
    progress
        Who is told how many episodes are known.
    """
    units = [tuple(seeds[i : i + unit_episodes]) for i in range(0, len(seeds), unit_episodes)]
    parts = [folder / f"{i:04}.npz" for i in range(len(units))]
    space, guess = describe_features(setup.environment, names)
    folder.mkdir(exist_ok=True)
    missing = [i for i, part in enumerate(parts) if not part.exists()]
    count = ProgressCount(progress, "experiences", len(seeds))
    count.add(len(seeds) - sum(len(units[i]) for i in missing))
    failures: list[Failed] = []
    for outcome in engine.run(collect_unit, setup, [units[i] for i in missing], time_limit=time_limit):
        i = missing[outcome.index]
        if isinstance(outcome, Failed):
            failures.append(outcome)
        else:
            join_experiences([outcome.result], space).save(parts[i], key)
            count.add(len(units[i]))
    if failures:
        raise UnitFailedError(f"experiences cannot be collected: {failures[0].error}")
    found = join_experiences([Experiences.load(part, key) for part in parts], space)
    for part in parts:
        part.unlink()
    folder.rmdir()
    return found.with_guessed_kinds() if guess else found
