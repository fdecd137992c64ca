"""Descriptions of mistakes.

- `describe_mistake`: describes one mistake; `describe_mistakes`, `summarise_mistakes`: summarises all of them.
- `unusual_features`: features with rare values at a mistake; `Unusual`: one feature.
- `similar_mistakes`: groups mistakes with the same action, the same better choice, and the same unusual feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from legible.features import FeatureSpace
from legible.formatting import counted, join_words, number, percent
from legible.mistakes.finding import Mistake, Mistakes
from legible.play import Experiences
from legible.rules import gerund, third_person

# A value is unusual if at most this share of all states has it, or a more extreme one.
RARE_SHARE = 0.05
MOST_UNUSUAL = 3


@dataclass(frozen=True)
class Unusual:
    """A feature with a rare value."""

    # Number of the feature, and its value.
    feature: int
    value: float
    share: float  # share of the recorded states with this or a more extreme value
    side: str  # "low" or "high" for numbers, "" for categories

    def words(self, space: FeatureSpace) -> str:
        """Return a description such as "the gap is 2 (low: 3 % of the states)"."""
        feature = space[self.feature]
        text = feature.values.get(self.value) or f"{feature.label} is {number(self.value)}"
        side = f"{self.side}: " if self.side else ""
        return f"{text} ({side}{percent(self.share)} of the states)"


def unusual_features(experiences: Experiences, row: int) -> tuple[Unusual, ...]:
    """Return the features whose value at a row is rare in the recorded states, the rarest first."""
    unusual: list[Unusual] = []
    for i, feature in enumerate(experiences.space.features):
        recorded_values = experiences.observations[:, i]
        value = recorded_values[row]
        if feature.kind == "categorical":
            shares = {"": float((recorded_values == value).mean())}
        else:
            shares = {"low": float((recorded_values <= value).mean()), "high": float((recorded_values >= value).mean())}
        side = min(shares, key=lambda name: shares[name])
        if shares[side] <= RARE_SHARE:
            unusual.append(Unusual(i, float(value), shares[side], side))
    return tuple(sorted(unusual, key=lambda one: (one.share, one.feature))[:MOST_UNUSUAL])


def describe_mistake(mistake: Mistake, experiences: Experiences) -> str:
    """Return a description of a mistake."""
    space = experiences.space
    did, better = (space.actions[choice].label for choice in (mistake.action, mistake.better))
    if mistake.low is None or mistake.high is None:
        worth = f"would have returned {number(mistake.gain)} more in this episode"
    elif mistake.low == mistake.high:
        worth = f"returns {number(mistake.gain)} more, exactly"
    else:
        worth = f"returns {number(mistake.gain)} more ({number(mistake.low)} to {number(mistake.high)})"
    unusual = unusual_features(experiences, mistake.row)
    where = f" Unusual there: {join_words([one.words(space) for one in unusual])}." if unusual else ""
    return f"Episode {mistake.seed}, step {mistake.step}: it {third_person(did)}, but {gerund(better)} {worth}.{where}"


def summarise_mistakes(found: Mistakes) -> str:
    """Return the number of mistakes and the cost of the worst, in a sentence."""
    if not found.decisions:
        why = f": {found.problem.split('. ')[0].rstrip('.')}" if found.problem else ""
        return f"Single decisions were not examined{why}."
    if not found.listed:
        return "Single decisions: no costly mistake was proven."
    worst = found.listed[0].gain  # the largest of all would be overstated
    return f"Single decisions: {counted(len(found.listed), 'costly mistake')} proven; the worst costs {number(worst)}."


def describe_mistakes(mistakes: Mistakes) -> list[str]:
    """Return a summary of a search for mistakes, one sentence per line; no lines if there was no search."""
    if not mistakes.decisions:
        return [_sentence(mistakes.problem)] if mistakes.problem else []
    examined = (
        f"Examined {mistakes.decisions} decisions by trying every choice there ({number(mistakes.steps_played)} steps)."
    )
    if mistakes.problem:
        return [examined, _sentence(mistakes.problem)]
    lines = [examined]
    if mistakes.is_exact:
        lines.append("Nothing is random after the start of an episode, so gains are exact.")

    # How frequent mistakes are, and what they cost; both only from the random sample of decisions.
    if mistakes.share is not None:
        share = mistakes.share
        lines.append(
            f"About {percent(share.mean)} of all decisions are proven mistakes (95 % CI {percent(share.low)} to "
            f"{percent(share.high)})."
        )
    if mistakes.headroom is not None:
        headroom = mistakes.headroom
        # An interval that reaches 0, or is wider than twice the estimate, says too little to be quoted.
        is_rough = headroom.low <= 0.0 or headroom.high - headroom.low > 2 * headroom.mean
        if is_rough:
            lines.append(
                "The total gain of correcting all mistakes could not be estimated: too few decisions were examined "
                "(--set mistakes.steps=N examines more)."
            )
        else:
            lines.append(
                f"Correcting likely mistakes one at a time would gain about {number(headroom.mean)} per episode (95 % "
                f"CI {number(headroom.low)} to {number(headroom.high)})."
            )
    if not mistakes.listed:
        lines.append("No mistakes were found: no other choice is significantly better.")
    return lines


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."


def similar_mistakes(mistakes: Sequence[Mistake], experiences: Experiences) -> list[tuple[Mistake, ...]]:
    """Group similar mistakes, the largest total gain first."""
    groups: dict[tuple[int, ...], list[Mistake]] = {}
    for mistake in mistakes:
        unusual = unusual_features(experiences, mistake.row)[:1]
        groups.setdefault((mistake.action, mistake.better, *(one.feature for one in unusual)), []).append(mistake)
    ordered = sorted(groups.values(), key=lambda group: -sum(one.gain for one in group))
    return [tuple(group) for group in ordered]
