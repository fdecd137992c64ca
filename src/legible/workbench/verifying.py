"""Checks of a new policy: it is as good as an old one, known weaknesses are gone, and it meets requirements.

Every check has two one-sided tests: that its claim holds, and that it is violated. Claims are shown at the level alpha
each, because all of them have to be shown; violations are corrected for the number of checks (Holm), so that a policy
that meets all claims fails with a probability of at most alpha. Both levels are split over the looks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legible.display import Displayed
from legible.engines import Engine, InProcess
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.evaluation import WorstCase
from legible.evaluation.pairs import PairedPlay
from legible.evaluation.recorded import Repetition
from legible.evaluation.relevance import relevant_effect
from legible.evaluation.statistics import holm
from legible.features import FeatureSpace
from legible.formatting import capitalise, counted, number, percent
from legible.policies import Policy
from legible.rules import Rule, RuleSet, describe_rule_set, parse_rule
from legible.study import Progress, Study
from legible.workbench.arena import Arena, open_arena
from legible.workbench.checks import FILE, Checks, Requirement, WeaknessCheck, export_checks, read_checks
from legible.workbench.comparing import ReturnDifferences, play_policies, return_differences
from legible.workbench.looks import (
    ALPHA,
    MOST_LOOKS,
    Interval,
    difference_p,
    episodes_to_decide,
    interval_of_differences,
    interval_of_share,
    seed_looks,
    share_p,
)
from legible.workbench.situations import Situation, find_situations, first_partings, shared_states_of

MOST_SEEDS = 4000
_STAGE = "verify"
# More seeds than the estimate says, because the range of the returns grows with them.
_RESERVE = 1.25
Status = Literal["shown", "violated", "undecided", "still there", "gone"]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Parameters
    ----------
    name, claim
        What is checked, and what must hold.
    status
        "shown" or "violated"; "undecided" if neither is. A known weakness is "still there", "gone" or "undecided".
    interval, p
        The estimate, each of whose ends has the level of a look; the p-value of a violation.
    needed
        Number of seeds that would probably decide; None if that is unknown.
    is_required
        Whether it decides the outcome.
    """

    name: str
    claim: str
    status: Status
    interval: Interval
    p: float
    needed: int | None = None
    is_required: bool = True

    def sentence(self) -> str:
        """Return the result in a line."""
        show = percent if self.name.startswith(("never", "success")) else number
        mean, low, high = (show(value) for value in (self.interval.mean, self.interval.low, self.interval.high))
        text = f"{self.name}: {self.status} ({mean}, {low} to {high}; claim: {self.claim})"
        if self.status == "undecided" and self.needed is not None and self.is_required:
            text += f"; about {number(self.needed)} seeds would decide"
        return text


@dataclass(frozen=True, repr=False)
class Verification(Displayed):
    """The outcome of all checks.

    `margin` is the largest loss that is allowed, `situations` are those in which the old policy does better, if the
    new one is worse.
    """

    checks: tuple[CheckResult, ...]
    seeds: int
    looks: tuple[int, ...]
    alpha: float
    margin: float
    space: FeatureSpace
    situations: tuple[Situation, ...] = ()

    @property
    def exit_code(self) -> int:
        """0: every required claim is shown. 1: a violation is shown. 3: undecided."""
        status = {check.status for check in self.checks if check.is_required}
        return 1 if "violated" in status else 3 if "undecided" in status else 0

    def headline(self) -> str:
        """Return the outcome in one line."""
        required = [check for check in self.checks if check.is_required]
        if self.exit_code == 1:
            violated = next(check for check in required if check.status == "violated")
            return " ".join([f"Failed: {violated.sentence()}.", *self.situation_sentences()[:1]])
        if self.exit_code == 3:
            undecided = [check for check in required if check.status == "undecided"]
            needed = [check.needed for check in undecided if check.needed is not None]
            advice = f" About {number(max(needed))} seeds would decide (--seeds)." if needed else ""
            names = ", ".join(check.name for check in undecided)
            return f"Undecided on {counted(self.seeds, 'seed')}: {names}.{advice}"
        return f"Passed: {counted(len(required), 'claim')} shown on {counted(self.seeds, 'seed')}."

    def situation_sentences(self) -> list[str]:
        """Return where the old policy does better, if the new one is worse."""
        return [situation.sentence(self.space, ("The old policy", "the new one")) for situation in self.situations]

    def level_sentence(self) -> str:
        """Return the margin and the error rates in words."""
        looks = ", ".join(map(str, self.looks))
        return (
            f"Margin: {number(self.margin)}. The error rate is at most {percent(self.alpha)} for each claim and all "
            f"violations together (Holm), with results judged at {looks} seeds."
        )

    def facts(self) -> dict[str, object]:
        """Return what a notebook shows."""
        return {"outcome": self.headline(), **{check.name: check.status for check in self.checks}}

    def __repr__(self) -> str:
        return f"<Verification: {self.headline()}>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "headline": self.headline(),
            "exit_code": self.exit_code,
            "seeds": self.seeds,
            "looks": list(self.looks),
            "alpha": self.alpha,
            "margin": self.margin,
            "checks": [asdict(check) for check in self.checks],
            "situations": [situation.to_dict(self.space) for situation in self.situations],
        }

    def markdown(self) -> str:
        """Return a summary for a pull request."""
        rows = []
        for check in self.checks:
            low, mean, high = map(number, (check.interval.low, check.interval.mean, check.interval.high))
            mark = {"violated": "❌", "undecided": "❔", "shown": "✅", "gone": "✅"}.get(check.status, "ℹ️")
            rows.append(f"| {mark} {check.status} | {check.name} | {check.claim} | {mean} ({low} to {high}) |")
        head = ["| | check | claim | estimate |", "|---|---|---|---|"]
        where = [f"- {sentence}" for sentence in self.situation_sentences()]
        text = [f"**{self.headline()}**", "", *head, *rows, "", *where, "", self.level_sentence()]
        return "\n".join(line.replace("\n", " ") for line in text) + "\n"

    def junit(self) -> str:
        """Return the results as a JUnit XML file; undecided checks are skipped tests."""
        from xml.sax.saxutils import escape, quoteattr  # noqa: PLC0415 (only this needs it)

        required = [check for check in self.checks if check.is_required]
        count = {status: sum(check.status == status for check in required) for status in ("violated", "undecided")}
        lines = [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<testsuite name="legible verify" tests="{len(self.checks)}" failures="{count["violated"]}" '
            f'skipped="{count["undecided"]}" errors="0">',
        ]
        for check in self.checks:
            lines.append(f'  <testcase classname="legible" name={quoteattr(check.name)}>')
            sentence = check.sentence()
            if check.is_required and check.status == "violated":
                lines.append(f"    <failure message={quoteattr(sentence)}>{escape(self.headline())}</failure>")
            elif check.is_required and check.status == "undecided":
                lines.append(f"    <skipped message={quoteattr(sentence)}/>")
            lines += [f"    <system-out>{escape(sentence)}</system-out>", "  </testcase>"]
        return "\n".join([*lines, "</testsuite>", ""])


class _Tested(NamedTuple):
    """One check at a look: the estimate, and the p-values of its claim and of its violation."""

    name: str
    claim: str
    interval: Interval
    shown_p: float
    violated_p: float
    needed: int | None
    known: bool = False


class _Verifier:
    """Plays a new policy, and an old one, look by look, and tests all checks."""

    def __init__(
        self, new: Arena, old: Arena | None, checks: Checks, margin: float | None, looks: tuple[int, ...], alpha: float
    ) -> None:
        """Play both policies on the seeds of the first look, and decide the margin.

        `new` and `old` are policies in an environment, `looks` the numbers of seeds at which checks are tested, and
        `margin` is the largest allowed loss; None for that of the file of `checks`, or 2 % of the scale of the task.
        `alpha` is the level of every claim, and of all violations together.
        """
        self._new, self._old, self._checks, self._looks, self._alpha = new, old, checks, looks, alpha
        self._level = alpha / len(looks)  # each look has its share of the error probability
        arenas = [new] if old is None else [new, old]
        self.records = play_policies(arenas, _STAGE, looks[0], looks[-1])
        self._random_mean = new.random_mean(_STAGE)
        returns = self.records[-1].result.played.returns  # of the old policy, or of the only one
        self.relevant = relevant_effect(returns, self._random_mean)
        self.margin = margin or checks.margin or self.relevant
        setup = self.records[0].setup
        # Plays the new policy guided by the rules of each weakness. `play_policies` has checked that episodes repeat.
        self._play = PairedPlay(setup, Repetition(setup.rows, holds=True), self.records[0], new.runner(_STAGE))
        for weakness in checks.weaknesses:
            self._play.add(weakness.rule_set)

    def run(self, deadline: float | None) -> Verification:
        """Test at every look until everything is decided; return the outcome.

        A look is a number of seeds, fixed in advance, at which all checks are tested. No look begins after `deadline`,
        a time of `time.monotonic`.
        """
        results: list[CheckResult] = []
        seeds = 0
        for look in self._looks:
            if results and deadline is not None and time.monotonic() > deadline:
                break
            for record in self.records:
                record.extend(look)
            seeds = look
            results = self._decide(self._test_all(look, known=False))
            statuses = [result.status for result in results]
            if "violated" in statuses or "undecided" not in statuses:
                break
        # Known weaknesses are only reported, so they are tested once, at the last look.
        of_known = self._decide(self._test_all(seeds, known=True))
        outcome = Verification((*results, *of_known), seeds, self._looks, self._alpha, self.margin, self._new.space)
        # With an old policy, the first result is whether the new one is not worse.
        if self._old is not None and results[0].status == "violated":
            outcome = replace(outcome, situations=self._situations(seeds))
        return outcome

    def _decide(self, tested: Sequence[_Tested]) -> list[CheckResult]:
        """Return the results of tested checks: violations corrected for their number, claims not."""
        corrected = holm([check.violated_p for check in tested])
        results = []
        for check, corrected_p in zip(tested, corrected, strict=True):
            status: Status = "undecided"
            if check.known and check.shown_p < self._level:
                status = "gone"
            elif check.known and check.violated_p < self._level:
                status = "still there"
            elif check.known:
                pass  # undecided, and never a violation
            elif corrected_p < self._level:
                status = "violated"
            elif check.shown_p < self._level:
                status = "shown"
            figures = (check.interval, check.violated_p, check.needed)
            results.append(CheckResult(check.name, check.claim, status, *figures, is_required=not check.known))
        return results

    def _test_all(self, look: int, *, known: bool) -> list[_Tested]:
        """Return all checks tested on the first `look` seeds: either the known weaknesses, or everything else."""
        tested = []
        if self._old is not None and not known:
            tested.append(self._test_not_worse(look))
        for place, weakness in enumerate(self._checks.weaknesses):
            if (weakness.expect == "known") == known:
                tested.append(self._test_weakness(place, weakness, look))
        if not known:
            tested += [self._test_requirement(requirement, look) for requirement in self._checks.requirements]
        return tested

    def _largest(self, *returns: Values) -> float:
        """Return the largest difference of two returns, of which the mean of random play is one."""
        values = np.concatenate([*returns, [self._random_mean]])
        values = values[np.isfinite(values)]
        return float(np.ptp(values)) if values.size else 0.0

    def _test_mean(
        self,
        name: str,
        claim: str,
        differences: ReturnDifferences,
        bound: float,
        largest: float,
        *,
        known: bool = False,
    ) -> _Tested:
        """Return the test of whether the mean of differences exceeds a bound.

        `name` and `claim` say in words what is checked, and what must hold. `largest` is the largest difference that is
        possible; the interval allows for one that is too rare to have been seen. A `known` weakness is only reported.
        """
        seed, level, seeds = self._new.seed, self._level, len(differences.for_low)
        interval = interval_of_differences(differences.for_low, level, seed, largest, differences.for_high)
        shown_p = difference_p(differences.for_low, bound, level, seed, largest)
        # The claim is violated where the mean lies below the bound: the same test with both signs turned.
        violated_p = difference_p(-differences.for_high, -bound, level, seed, largest)
        standard_error = float(differences.for_low.std(ddof=1)) / math.sqrt(seeds)
        seeds_needed = self._needed(seeds, standard_error, interval.mean - bound, largest + abs(bound))
        return _Tested(name, claim, interval, shown_p, violated_p, seeds_needed, known)

    def _needed(self, seeds: int, error: float, distance: float, largest: float) -> int | None:
        """Return how many seeds would probably decide a check; None if that cannot be estimated.

        `error` is the standard error on the first `seeds` seeds, `distance` that of the estimate from its bound, and
        `largest` the largest difference that is possible. More looks make each of them stricter.
        """
        level = self._alpha / MOST_LOOKS
        needed = episodes_to_decide(seeds, error, distance, level)
        if needed is not None and largest > abs(distance):
            # Losses of the largest size that are too rare to be seen must be excluded, too.
            needed = max(needed, math.ceil(math.log(level) / math.log1p(-abs(distance) / largest)))
        return None if needed is None else math.ceil(_RESERVE * needed)

    def _test_not_worse(self, look: int) -> _Tested:
        """Return the test of whether the new policy loses less than the margin, on the first `look` seeds."""
        new, old = (record.result[:look] for record in self.records)
        differences = return_differences(old, new, WorstCase([new, old]))
        largest = self._largest(new.played.returns, old.played.returns)
        claim = f"loses less than {number(self.margin)}"
        return self._test_mean("not worse than the old policy", claim, differences, -self.margin, largest)

    def _test_weakness(self, place: int, weakness: WeaknessCheck, look: int) -> _Tested:
        """Return the test of whether guidance with the rules of a weakness gains less than the margin.

        `place` is that of the weakness among the checks, and `look` the number of seeds. The claim is an upper bound of
        the gain, so the sign is turned for the test, which shows that a mean exceeds a bound.
        """
        self._play.play_seeds({place: look})
        pairs = self._play.pairs(place, look)
        gains = return_differences(pairs.base, pairs.guided, WorstCase(self._play.results))
        losses = ReturnDifferences(for_low=-gains.for_high, for_high=-gains.for_low)
        margin = weakness.margin or self.relevant
        largest = self._largest(pairs.guided.played.returns, pairs.base.played.returns)
        words = describe_rule_set(weakness.rule_set, self._new.space, "advice")
        name = f"weakness “{capitalise(words)}”"
        claim = f"gains less than {number(margin)} by the rules"
        tested = self._test_mean(name, claim, losses, -margin, largest, known=weakness.expect == "known")
        return tested._replace(interval=tested.interval.scaled(-1.0))

    def _test_requirement(self, requirement: Requirement, look: int) -> _Tested:
        """Return the test of a requirement on the first `look` seeds.

        It is either a bound on the share of episodes (that succeed, or in which a situation occurs), or a bound on a
        mean (return, length or cost). Failed episodes, those that raised an error, count as the worst.
        """
        result = self.records[0].result[:look]
        if requirement.conditions:
            name = f"never “{requirement.situation}”"
            return self._test_share(requirement, name, self._count_episodes_with(requirement, look), len(result))
        if requirement.figure == "success":
            if np.isnan(result.success[~result.failed]).any():
                raise LegibleError(
                    f"success {requirement.bound_words}: the environment does not report is_success at the end."
                )
            return self._test_share(requirement, "success", int(np.nansum(result.success)), len(result))

        # A mean: failed episodes get the worst value for the claim that was seen; their lengths are left out.
        values = {"mean": result.returns, "length": result.lengths.astype(float), "cost": result.costs}[
            requirement.figure
        ]
        worst = float(np.nanmin(values) if requirement.is_least else np.nanmax(values))
        values = np.where(result.failed, math.nan if requirement.figure == "length" else worst, values)
        values = values[np.isfinite(values)]

        # The test shows that a mean exceeds a bound; for "at most", the sign is turned.
        bound, sign = requirement.bound, 1.0 if requirement.is_least else -1.0
        distances = sign * (values - bound)
        largest = self._largest(values) if requirement.figure == "mean" else float(np.ptp(values))
        # At least the distance of the mean from the bound: it is possible, even if all values are the same.
        largest = max(largest, abs(float(values.mean()) - bound))
        differences = ReturnDifferences(for_low=distances, for_high=distances)
        tested = self._test_mean(requirement.figure, requirement.bound_words, differences, bound=0.0, largest=largest)
        # Back from distances to values of the figure.
        turned = tested.interval.scaled(sign)
        interval = Interval(turned.mean + bound, turned.low + bound, turned.high + bound, turned.level)
        return tested._replace(interval=interval)

    def _test_share(self, requirement: Requirement, name: str, yes: int, episodes: int) -> _Tested:
        """Return the exact test of whether `yes` of all episodes is within the bound of a requirement."""
        bound, is_least = requirement.bound, requirement.is_least
        exceeds_p, falls_short_p = share_p(yes, episodes, bound), share_p(episodes - yes, episodes, 1.0 - bound)
        shown_p, violated_p = (exceeds_p, falls_short_p) if is_least else (falls_short_p, exceeds_p)
        # One more success and one more failure: otherwise the standard error of 0 % and 100 % would be zero.
        smoothed_share = (yes + 1) / (episodes + 2)
        error = math.sqrt(smoothed_share * (1 - smoothed_share) / episodes)
        needed = self._needed(episodes, error, smoothed_share - bound, 1.0)
        claim = f"{'at least' if is_least else 'at most'} {percent(bound)} of the episodes"
        return _Tested(name, claim, interval_of_share(yes, episodes, self._level), shown_p, violated_p, needed)

    def _count_episodes_with(self, requirement: Requirement, look: int) -> int:
        """Return in how many of the first `look` episodes a situation occurs; failed ones count as if it did."""
        rule = Rule("+", 0, requirement.conditions)
        count = 0
        for places, part in self.records[0].parts(0, look):
            holds = rule.matches(part.observations)
            for place in range(min(places.stop, look) - places.start):
                holds_in_episode = holds[part.starts[place] : part.starts[place + 1]]
                count += bool(holds_in_episode.any() or part.failed[place])
        return count

    def _situations(self, seeds: int) -> tuple[Situation, ...]:
        """Return the situations in which the old policy does better."""
        new, old = self.records
        partings = first_partings(old, new, seeds, self._new.space)
        differences = np.nan_to_num(new.result[:seeds].returns - old.result[:seeds].returns)
        shared = shared_states_of(old, partings)
        found = find_situations(partings, differences, shared, self._new.space, seed=self._new.seed, alpha=self._alpha)
        return tuple(situation for situation in found if situation.mean < 0.0)


def verify(
    study: Study,
    policy: str | Path | Policy,
    *,
    checks: str | Path | None = None,
    margin: float | None = None,
    most_seeds: int = MOST_SEEDS,
    alpha: float = ALPHA,
    minutes: float | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Verification:
    """Play a new policy and return whether it passes: not worse than a study's policy, and all checks met.

    Parameters
    ----------
    study, policy
        The study of the old policy; the new policy, as for `legible.Study`.
    checks
        File of checks (known weaknesses and requirements); by default ``weaknesses.toml`` of the study.
    margin
        Largest allowed loss of the mean return; by default the margin in the file, or 2 % of the scale of the task.
    most_seeds, minutes
        Limits. Time is checked between looks only.
    alpha
        Level of every claim, and of all violations together.
    engine, progress
        Where episodes run, by default in this process; called with the progress, as for `legible.Study`.
    options
        Further arguments of `legible.workbench.open_arena` for the new policy.
    """
    space = study.collect().space
    if checks is None and study.has("references"):
        export_checks(study)  # unless the study has a file of checks, or no confirmed weakness
    # A given file must exist (`read_checks` raises an error); the study's own may be missing: then nothing is checked.
    file = study.folder / FILE if checks is None else Path(checks)
    all_checks = Checks() if checks is None and not file.exists() else read_checks(file, space)

    shared: dict[str, Any] = {"settings": study.settings, "seed": study.seed, "relations": "none", "progress": progress}
    engine = engine or InProcess()
    old = open_arena(study.environment, study.policy, name="the old policy", space=space, engine=engine, **shared)
    new = open_arena(study.environment, policy, space=space, engine=engine, **{**shared, **options})
    return _run(new, old, all_checks, margin, most_seeds, alpha, minutes)


def verify_policy(
    environment: str | EnvironmentSpec,
    policy: str | Path | Policy,
    old: str | Path | Policy | None = None,
    *,
    rules: Sequence[str | Rule | RuleSet] = (),
    margin: float | None = None,
    most_seeds: int = MOST_SEEDS,
    alpha: float = ALPHA,
    minutes: float | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Verification:
    """Play a policy without a study and return whether it passes: not worse than an old one, and helped by no rule.

    Parameters
    ----------
    environment, policy
        As for `legible.Study`.
    old
        The old policy; None: no such check.
    rules
        Rules, each of which would gain less than the margin if the policy has no such weakness.
    margin
        Largest allowed loss against the old policy, and gain by the rules; by default 2 % of the scale of the task.
    most_seeds, alpha, minutes, engine, progress, options
        As for `verify`.
    """
    if old is None and not rules:
        raise LegibleError("there is nothing to verify: give an old policy, or rules.")
    engine = engine or InProcess()
    arena = open_arena(environment, policy, engine=engine, progress=progress, **options)
    old_arena = None
    if old is not None:
        old_arena = open_arena(environment, old, space=arena.space, engine=engine, progress=progress, **options)
    parsed = [parse_rule(rule, arena.space) if isinstance(rule, str) else rule for rule in rules]
    rule_sets = [rule if isinstance(rule, RuleSet) else RuleSet((rule,)) for rule in parsed]
    checks = Checks(weaknesses=tuple(WeaknessCheck(rule_set, "absent", margin) for rule_set in rule_sets))
    return _run(arena, old_arena, checks, margin, most_seeds, alpha, minutes)


def _run(
    new: Arena,
    old: Arena | None,
    checks: Checks,
    margin: float | None,
    most_seeds: int,
    alpha: float,
    minutes: float | None,
) -> Verification:
    """Play and test until everything is decided, or a limit is reached; the arguments are those of `verify`."""
    deadline = None if minutes is None else time.monotonic() + 60.0 * minutes
    with new.engine:
        return _Verifier(new, old, checks, margin, seed_looks(most_seeds), alpha).run(deadline)
