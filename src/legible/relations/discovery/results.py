"""Results of a discovery: relations with their proofs, and a relations file.

- `DiscoveredRelation`: a relation that was proposed, with the result of its proof.
- `Discovery`: all of them, with what they cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from legible.features import FeatureSpace
from legible.formatting import number, percent
from legible.relations.check.answers import RelationCheck
from legible.relations.discovery.candidates import Candidate
from legible.relations.relation import MetamorphicRelation
from legible.relations.writer import dump_relations

DiscoveryVerdict: TypeAlias = Literal["exact as far as seen", "approximate", "rejected"]


@dataclass(frozen=True)
class DiscoveredRelation:
    """A relation that was proposed, and the result of its proof.

    Parameters
    ----------
    name, words
        Name and description.
    verdict
        "exact as far as seen", "approximate" or "rejected".
    space
        Features and actions.
    candidate, relations
        The map, and the relations for every pair of actions.
    checks
        The proof, one check for every pair of actions.
    bound
        For exact relations, the largest share of disagreeing states that is compatible with the proof, at an error rate
        of 5 % over all proposals; NaN for others.
    starts_differ
        Features whose distribution at the start of episodes differs between states and their images.
    parts
        Number of parts of an action.
    """

    name: str
    words: str
    verdict: DiscoveryVerdict
    space: FeatureSpace
    candidate: Candidate
    relations: tuple[MetamorphicRelation, ...]
    checks: tuple[RelationCheck, ...]
    bound: float
    starts_differ: tuple[str, ...] = ()
    parts: int = 1

    @property
    def transitions(self) -> int:
        """Number of held-out transitions that were compared; a whole action is checked once for each of its parts."""
        return sum(check.states for check in self.checks) // self.parts

    @property
    def worst(self) -> RelationCheck:
        """The check that agrees least."""
        order = {"does not hold": 0, "cannot tell": 1, "holds approximately": 2, "holds": 3}
        return min(self.checks, key=lambda check: (order[check.verdict], np.nan_to_num(check.agreement, nan=-1.0)))

    @property
    def text(self) -> str:
        """The verdict with its evidence, in a sentence."""
        worst, n = self.worst, self.transitions
        if self.verdict == "exact as far as seen":
            return (
                f"Exact as far as seen: none of {n} held-out transitions disagrees, so at most {percent(self.bound)} "
                "of all transitions do."
            )
        size = f" by up to {number(worst.deviation)} ({worst.deviation_of})" if worst.deviation_of else ""
        if self.verdict == "approximate" and worst.is_exact:
            apart = percent(1 - min(check.agreement for check in self.checks))
            deviations = f"; {worst.slight}" if worst.slight else size
            return f"Approximate: up to {apart} of {n} held-out transitions disagree{deviations}."
        if self.verdict == "approximate":
            return (
                f"Approximate: images are predicted nearly as well as {n} held-out transitions. The excess error is "
                f"{number(max(check.deviation for check in self.checks))} of the variance ({worst.deviation_of})."
            )
        why = worst.counterexample.text if worst.counterexample is not None else f"{worst.note}."
        return f"Rejected for {worst.action} → {worst.image_action}: {why}"

    @property
    def ignored_text(self) -> str:
        """The ignored features and how far the environment disagreed there, in a sentence; empty without any."""
        ignored, space = self.candidate.ignored, self.space
        if not ignored:
            return ""
        names = [space.names[i] for i in sorted(ignored)]
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        worst = max((share for _, share in self.candidate.prices), default=0.0)
        price = f" Without that, up to {percent(worst)} of the states disagreed there." if worst else ""
        return f"Ignores {shown}.{price}"

    @property
    def evidence(self) -> str:
        """All sentences: verdict, ignored features, starts."""
        return " ".join(part for part in (self.text, self.ignored_text, self.starts_text) if part)

    @property
    def starts_text(self) -> str:
        """A sentence that compares the starts of episodes with their images."""
        if not self.starts_differ:
            return "Episodes start alike in states and their images."
        more = " …" if len(self.starts_differ) > 6 else ""
        return f"Starts of episodes differ from their images in {', '.join(self.starts_differ[:6])}{more}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "name": self.name,
            "words": self.words,
            "verdict": self.verdict,
            "text": self.text,
            "transitions": self.transitions,
            "bound": None if math.isnan(self.bound) else self.bound,
            "starts_differ": list(self.starts_differ),
            "ignored": {
                self.space.names[i]: dict(self.candidate.prices).get(i) for i in sorted(self.candidate.ignored)
            },
            "checks": [check.to_dict() for check in self.checks],
        }


@dataclass(frozen=True)
class Discovery:
    """Result of a discovery.

    Parameters
    ----------
    environment
        Name of the environment.
    space
        Features and actions that the relations are about.
    found, rejected
        Relations that hold, exactly or approximately, and relations that passed the screening but failed the proof.
    screened
        Number of proposals that were screened.
    steps, seconds
        Steps taken in the environment (two for every compared state), and time used.
    complete
        False if time ran out.
    """

    environment: str
    space: FeatureSpace
    found: tuple[DiscoveredRelation, ...]
    rejected: tuple[DiscoveredRelation, ...]
    screened: int
    steps: int
    seconds: float
    complete: bool

    @property
    def relations(self) -> tuple[MetamorphicRelation, ...]:
        """All relations that hold."""
        return tuple(relation for found in self.found for relation in found.relations)

    @property
    def text(self) -> str:
        """The text of a relations file; empty if nothing was found."""
        return self.toml() if self.found else ""

    def toml(self) -> str:
        """Return the text of a relations file, also of one without relations."""
        lines = [
            f"# Relations that were discovered in {self.environment}: {self.screened} proposals, {self.steps} steps."
        ]
        lines += [f"# {entry.name} was rejected. {entry.text}".replace("\n", " ") for entry in self.rejected]
        holds = {"exact as far as seen": "yes", "approximate": "nearly"}
        relations = [
            replace(
                relation,
                holds={self.environment: holds[found.verdict]},
                note=found.evidence,
            )
            for found in self.found
            for relation in found.relations
        ]
        return "\n".join([*lines, "", dump_relations(relations, self.space)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        plain = {name: getattr(self, name) for name in ("environment", "screened", "steps", "seconds", "complete")}
        plain["relations"] = [entry.to_dict() for entry in (*self.found, *self.rejected)]
        return plain | {"toml": self.toml()}
