"""How long a study will take, from a few episodes that are played to find out.

- `measure_rate`: episodes a second in one process.
- `planned_episodes`: how many episodes the steps of a study play.
- `estimate`: both together.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, replace

from legible.engines import Engine, InProcess
from legible.evaluation.units import UNGUIDED, Setup, Unit, play_unit
from legible.play import stage_seeds
from legible.settings import StudySettings

# What is not known before it is found: rules that an action gets, and the share of rule sets that look like weaknesses.
RULES_PER_ACTION = 15
SHARE_OF_CANDIDATES = 0.1
EXPLAINED_RULES = 12


@dataclass(frozen=True)
class Estimate:
    """What a study will take.

    Parameters
    ----------
    rate
        Episodes a second in one process, as measured.
    episodes
        Episodes that will be played, by step.
    workers
        Processes that play them; experiences are collected by one.
    """

    rate: float
    episodes: dict[str, int]
    workers: int

    @property
    def seconds(self) -> float:
        """How long it will take."""
        alone = self.episodes.get("experiences", 0)
        shared = sum(self.episodes.values()) - alone
        return alone / self.rate + shared / (self.rate * self.workers)

    def without(self, *steps: str) -> Estimate:
        """What it will take when some steps are not done."""
        return replace(self, episodes={step: n for step, n in self.episodes.items() if step not in steps})


def measure_rate(setup: Setup, *, seconds: float = 1.0, seed: int = 0) -> float:
    """Play unguided episodes for about some seconds and return how many a second there were.

    Ever larger lots are played, up to the batch that units have, and the last one counts: the first ones pay for what
    is only done once, and episodes side by side are faster than one by one.
    """
    count = 1
    for lot in itertools.count():
        unit = Unit((UNGUIDED,) * count, tuple(stage_seeds(seed, "experiences", 0, count)))
        before = time.perf_counter()
        play_unit(setup, unit)
        took = time.perf_counter() - before
        warm = lot > 0 or took > 10 * seconds
        if warm and (took >= seconds or (count >= setup.play.batch and took >= seconds / 4)):
            break
        if took < seconds:
            count *= 4
    return count / took


def planned_episodes(
    settings: StudySettings, rule_sets: int, candidates: int | None = None, *, collected: bool = False
) -> dict[str, int]:
    """Return how many episodes each step plays.

    Parameters
    ----------
    settings
        The numbers.
    rule_sets
        Rule sets that are tested.
    candidates
        Rule sets that look like weaknesses; a guess where nobody knows yet.
    collected
        Whether the experiences are there already.
    """
    found = round(SHARE_OF_CANDIDATES * rule_sets) if candidates is None else candidates
    screening = (1 + rule_sets) * settings.evaluation.episodes
    confirming, improving = settings.evaluation.confirmation_episodes, settings.improvement
    tried = min(found, improving.most_candidates or found)
    return {
        "experiences": 0 if collected else settings.episodes,
        "screening": screening,
        "confirmation": (1 + 2 * found) * confirming if found else 0,
        "improvement": (1 + tried) * improving.episodes + 2 * improving.final_episodes,
        "explanation": min(EXPLAINED_RULES * confirming, screening) if found else 0,
    }


def estimate(
    setup: Setup, settings: StudySettings, engine: Engine, rule_sets: int | None = None, *, rate: float | None = None
) -> Estimate:
    """Estimate what a study takes; with `rule_sets`, what is left of it once the rules are known."""
    rate = rate or measure_rate(setup)
    workers = 1 if isinstance(engine, InProcess) else getattr(engine, "workers", None) or 1
    known = rule_sets if rule_sets is not None else RULES_PER_ACTION * setup.policy.n_actions
    return Estimate(rate, planned_episodes(settings, known, collected=rule_sets is not None), workers)
