"""Findings of a study about failures: the modes, and the causes of mistakes in the policy.

- `Failures`: the result of the step; `Diagnosis`: the cause of mistakes between some choices.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from legible.display import Displayed
from legible.evaluation.figures import Figure
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

    def sentence(self, space: FeatureSpace) -> str:
        """Return the diagnosis in words."""
        where = "" if self.is_whole else f"{self.title(space)}: "
        text = where + self.cause.sentence(self.group_words)
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
            "why": self.cause.why or None,
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
    """

    failed: Figure | None
    episodes: int
    modes: tuple[FailureMode, ...]
    diagnoses: tuple[Diagnosis, ...]
    problem: str = ""

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
        """Return the first failure mode and the first known cause, in a sentence each."""
        lines = [self.modes[0].summary()] if self.modes else []
        known = [one for one in self.diagnoses if one.cause.kind != "cannot tell"]
        return [*lines, *(one.sentence(space) for one in known[:1])]

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
        """Return the first failure mode, until when it can be avoided, and the first known cause or why none is."""
        lines = self.summary(space)
        avoidable = self.modes[0].avoidable if self.modes else None
        if avoidable is not None and avoidable.summary():
            lines.insert(1, avoidable.summary())
        if self.diagnoses and all(one.cause.kind == "cannot tell" for one in self.diagnoses):
            lines.append(self.diagnoses[0].sentence(space))
        return [*lines, *([self.problem] if self.problem else [])]

    def sentences(self, space: FeatureSpace) -> list[str]:
        """Return everything in words."""
        modes = [sentence for mode in self.modes for sentence in mode.sentences()]
        return [self.share(), *modes, *self.causes(space)]

    def causes(self, space: FeatureSpace) -> list[str]:
        """Return the causes of all choices together and those that are known, or why none were looked for."""
        shown = [one for one in self.diagnoses if one.is_whole or one.cause.kind != "cannot tell"]
        # Where actions have several parts, the same may hold for each of them.
        return [*dict.fromkeys(one.sentence(space) for one in shown), *([self.problem] if self.problem else [])]

    def to_dict(self, space: FeatureSpace) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {
            "failed": None if self.failed is None else self.failed._asdict(),
            "episodes": self.episodes,
            "modes": [mode.to_dict(space) for mode in self.modes],
            "causes": [one.to_dict(space) for one in self.diagnoses],
            "problem": self.problem or None,
        }
