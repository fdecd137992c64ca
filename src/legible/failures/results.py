"""Findings of a study about failures: the modes, and the causes of mistakes in the policy.

- `Failures`: the result of the step; `Diagnosis`: the cause of mistakes between some choices.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from legible.display import Displayed
from legible.evaluation.figures import Figure
from legible.failures.avoiding import Avoidable
from legible.failures.causes import Cause
from legible.failures.modes import FailureMode
from legible.features import FeatureSpace
from legible.formatting import join_words, percent
from legible.rules import gerund


@dataclass(frozen=True)
class Diagnosis:
    """The cause of mistakes between some choices.

    Parameters
    ----------
    choices
        Numbers of the choices, of one group: of a weakness or of mistakes; all of them for the policy as a whole.
    is_whole
        Whether it is about all choices.
    cause
        The cause.
    group_words
        The group of features that it is about, in words.
    misranked
        Share of the tried decisions, weighted by the difference of returns, in which the policy's scores rank two of
        the choices wrongly.
    score_kind
        Meaning of the scores.
    """

    choices: tuple[int, ...]
    is_whole: bool
    cause: Cause
    group_words: str
    misranked: float
    score_kind: str

    def sentence(self, space: FeatureSpace, *, short: bool = False) -> str:
        """Return the diagnosis in words; a short one leaves out what was tried."""
        where = "" if self.is_whole else f"{self.title(space)}: "
        text = where + self.cause.sentence(self.group_words, short=short)
        if self.score_kind == "values" and self.misranked > 0:
            text += (
                f" Its value estimates rank two choices in the wrong order in {percent(self.misranked)} of the "
                "decisions, weighted by what that costs."
            )
        return text

    def title(self, space: FeatureSpace) -> str:
        """Return the choices in words."""
        if self.is_whole:
            return "All choices"
        return "Choosing between " + join_words([gerund(space.actions[choice].label) for choice in self.choices])

    def to_dict(self, space: FeatureSpace) -> dict[str, Any]:
        """Return plain data, for JSON."""
        evidence = self.cause.evidence
        return {
            "choices": [] if self.is_whole else [space.action_names[choice] for choice in self.choices],
            "kind": self.cause.kind,
            "features": self.cause.group or None,
            "why": f"{self.cause.why}. {self.cause.details}".strip(". ") or None,
            "decisions": self.cause.decisions,
            "mistakes": self.cause.mistakes,
            "misranked": self.misranked,
            "evidence": None if evidence is None else asdict(evidence),
            "sentence": self.sentence(space),
        }


@dataclass(frozen=True, repr=False)
class Failures(Displayed):
    """Rules that predict failure, until when failures could be avoided, and the causes of the policy's mistakes.

    Parameters
    ----------
    failed
        Share of the held-out episodes that fail; None if failures are unknown.
    episodes
        Number of held-out episodes.
    modes
        Failure modes, the most useful first.
    diagnoses
        Causes of mistakes: of all choices together, then between those of weaknesses and mistakes.
    problem
        Why no causes were looked for; "" otherwise.
    avoidable
        Until when failures of any kind could have been avoided; None where modes say it, or where that is unknown.
    """

    failed: Figure | None
    episodes: int
    modes: tuple[FailureMode, ...]
    diagnoses: tuple[Diagnosis, ...]
    problem: str = ""
    avoidable: Avoidable | None = None

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        failed = {} if self.failed is None else {"failed": percent(self.failed.value)}
        causes: dict[str, object] = {str(d.cause.kind): d.group_words or d.cause.why for d in self.diagnoses[:1]}
        return {**failed, "failure modes": len(self.modes), **causes}

    @property
    def whole(self) -> Diagnosis | None:
        """The diagnosis of all choices together."""
        return next((one for one in self.diagnoses if one.is_whole), None)

    def summary(self, space: FeatureSpace) -> list[str]:
        """Return the first failure mode, the choice that is better there, and the first known cause, a sentence each.

        This is for the verdict, which has little room: what was tried in vain is left out.
        """
        first, alternative = self.modes[:1], self.modes[0].alternative if self.modes else None
        better = [alternative.sentences()[0]] if alternative is not None and alternative.is_better else []
        known = [one.sentence(space) for one in self.diagnoses if one.cause.kind != "cannot tell"]
        return [*(mode.summary() for mode in first), *better, *known[:1]]

    def places(self) -> list[str]:
        """Return where the policy fails: the failure modes with their figures, the most useful first."""
        return [mode.summary() for mode in self.modes]

    def share(self) -> str:
        """Return how many episodes fail."""
        if self.failed is None:
            return f"Too few of the {self.episodes} held-out episodes end in a failure to say what predicts one."
        low, high = percent(self.failed.low), percent(self.failed.high)
        share = f"{percent(self.failed.value)} ({low} to {high}) of {self.episodes} held-out episodes fail."
        if self.failed.value == 1.0:
            return f"All {self.episodes} held-out episodes fail."
        return share if self.modes else f"{share} No rule predicts which."

    def reasons(self, space: FeatureSpace) -> list[str]:
        """Return why the policy fails: what it does where it fails, what would be better, and the cause in the policy.

        If nothing is shown to be better, the sentences say what was tried and what that rules out.
        """
        # The first mode, unless only another one has a choice that is better.
        with_better = [mode for mode in self.modes if mode.alternative is not None and mode.alternative.is_better]
        lines: list[str] = []
        for mode in (with_better or self.modes)[:1]:
            where = "Where this pattern of failures holds" if mode == self.modes[0] else f"If {mode.words}"
            lines += mode.evidence(where, short=True)
        if self.avoidable is not None:
            lines.append(self.avoidable.summary() or self.avoidable.sentence())
        return [*lines, *self.causes(space, short=True)[:1]]

    def sentences(self, space: FeatureSpace) -> list[str]:
        """Return everything in words."""
        lines = [self.share(), *(sentence for mode in self.modes for sentence in mode.sentences())]
        lines += [] if self.avoidable is None else [self.avoidable.sentence()]
        return [*lines, *self.causes(space)]

    def causes(self, space: FeatureSpace, *, short: bool = False) -> list[str]:
        """Return the known causes in words; where there are none, why, or why none were looked for."""
        known = [one for one in self.diagnoses if one.cause.kind != "cannot tell"]
        # Where actions have several parts, the same may hold for each of them.
        sentences = dict.fromkeys(one.sentence(space, short=short) for one in known or self.diagnoses[:1])
        return [*sentences, *([self.problem] if self.problem else [])]

    def to_dict(self, space: FeatureSpace) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {
            "failed": None if self.failed is None else self.failed._asdict(),
            "episodes": self.episodes,
            "modes": [mode.to_dict(space) for mode in self.modes],
            "causes": [one.to_dict(space) for one in self.diagnoses],
            "problem": self.problem or None,
            "avoidable": None if self.avoidable is None else self.avoidable.to_dict(),
        }
