"""The first facts of a study, before any rule is tested: scores, how episodes end, baselines, reproducible seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from legible.display import Displayed
from legible.environments import UnfitEnvironmentError
from legible.evaluation import Sample, find_objective
from legible.evaluation.endings import describe_endings, share_endings
from legible.evaluation.recorded import find_repetition
from legible.evaluation.references import play_references
from legible.evaluation.relevance import relevant_effect
from legible.evaluation.units import UNGUIDED
from legible.formatting import capitalise, number, percent, with_error
from legible.play import stage_seeds
from legible.study.references import plain_references

if TYPE_CHECKING:
    from legible.study.study import Study


@dataclass(frozen=True)
class BaselineScore:
    """The value of a baseline by the objective, on the seeds on which baselines are chosen."""

    words: str
    kind: str
    value: float


@dataclass(frozen=True, repr=False)
class FirstFacts(Displayed):
    """Facts from the first episodes of a study.

    Parameters
    ----------
    base
        Summary of the unguided policy.
    value
        Its value by the objective.
    truncated
        Share of its episodes that a time limit ends.
    baselines
        Random play, constant actions and the policy played the other way, in this order.
    relevant
        Smallest effect of interest, in units of the objective.
    ending
        The most frequent bad ending as a clause; "" where there is none.
    """

    base: Sample
    value: float
    truncated: float
    baselines: tuple[BaselineScore, ...]
    relevant: float
    ending: str = ""

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        return {
            "mean return": with_error(self.base.mean, self.base.error),
            "ended by a time limit": percent(self.truncated),
            "smallest effect of interest": number(self.relevant),
        }

    def sentences(self) -> list[str]:
        """Return the facts in plain words; they are provisional until held-out seeds are played."""
        mean = with_error(self.base.mean, self.base.error)
        ends = [f"{percent(self.base.success)} succeed"] if np.isfinite(self.base.success) else []
        ends += [f"{percent(self.truncated)} end at the time limit"] if self.truncated else []
        lines = [
            f"First look: mean return {mean} over {self.base.episodes} episodes{''.join(f'; {end}' for end in ends)}."
        ]
        if self.ending:
            lines.append(f"{capitalise(self.ending)}.")
        simple = [baseline for baseline in self.baselines if baseline.kind in {"random", "constant"}]
        best = max(simple, key=lambda baseline: baseline.value)
        lines.append(f"The best simple baseline is {best.words}: {number(best.value)}.")
        # A "way" is the policy with other randomness: sampled instead of greedy actions, for instance.
        lines += [
            f"{capitalise(other.words)}: {number(other.value)}." for other in self.baselines if other.kind == "way"
        ]
        if self.relevant:
            lines.append(f"Effects up to {number(self.relevant)} count as negligible (evaluation.relevant).")
        else:
            lines.append("Every effect counts, however small (evaluation.relevant is 0, or nothing varies).")
        return lines


def gather_first_facts(study: Study) -> FirstFacts:
    """Return the first figures of a study: the policy and simple baselines on a few seeds.

    An environment in which the same seed does not give the same episode is refused, unless the study compares
    independent episodes.
    """
    settings, run = study.settings, study.runner("first look")
    if settings.evaluation.method != "unpaired":
        # These episodes are the first ones of the race, which reads them from the folder later.
        repetition = find_repetition(study.setup(), study.seed, "racing", run, progress_name="first look")
        if not repetition.holds:
            raise UnfitEnvironmentError(
                f"{study.environment.name}: the same seed does not give the same episode, so guided and unguided "
                "episodes cannot be compared in pairs. 'legible check' shows where they differ. If the environment is "
                "yours, call super().reset(seed=seed) and draw all random numbers from self.np_random. If not, pass "
                "--unpaired, which needs many more episodes."
            )
    # Play the policy (its number is `UNGUIDED`) and the baselines (random play, constant actions, and the policy with
    # other randomness, such as sampled actions); compute the objective of each. `_` is a note on those left out.
    references, _ = plain_references(study)
    played = play_references(
        study.setup(),
        references,
        seeds=stage_seeds(study.seed, "references", 0, settings.references.episodes),
        most_failed=settings.most_failed,
        run=run,
    )
    objective = find_objective(settings.evaluation.objective)
    values = {number: objective.value(result.played) for number, result in played.items()}
    base = played[UNGUIDED].played  # without failed episodes
    baselines = tuple(
        BaselineScore(references[number].words, references[number].kind, value)
        for number, value in values.items()
        if number != UNGUIDED
    )
    random_play = next((baseline.value for baseline in baselines if baseline.kind == "random"), float("nan"))
    return FirstFacts(
        base=Sample.of(played[UNGUIDED]),
        value=values[UNGUIDED],
        truncated=float(base.truncated.mean()),
        baselines=baselines,
        relevant=relevant_effect(objective.values(base), random_play, settings.evaluation.relevant),
        ending=describe_endings(share_endings(base)),
    )
