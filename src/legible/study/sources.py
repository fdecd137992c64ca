"""The sources of rule sets that a study uses: their inputs (`sources_of`), and the results of each (`source_rows`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from legible.errors import LegibleError
from legible.explanation.grouping import changed_states
from legible.files import DamagedFileError, read_json, write_json
from legible.hypotheses import (
    OTHERS,
    SEARCHED,
    Hypotheses,
    MeasuredEffect,
    Proposal,
    SourceInput,
    Trial,
    open_sources,
    source_name_of_others,
    source_names,
)
from legible.play import Experiences, Known
from legible.rules import RuleSet
from legible.study.estimate import guess_known, search_budget
from legible.study.mistakes import decision_gains

if TYPE_CHECKING:
    from legible.study.study import Study


# Search episodes begin at the first change, so a budget of steps pays for this multiple of whole episodes.
EPISODES_OF_A_SEARCH = 1.5


def sources_of(study: Study) -> dict[str, Hypotheses]:
    """Return the sources of rule sets that the settings of a study name, by name.

    A source is a generator that yields rule sets to test and is sent their effects: the mined rules with their related
    forms ("mined") or without ("alone"), a search, other policies and studies.
    """
    settings, recorded = study.settings, study.experiences
    names = source_names(settings.sources)
    # What sources may use; the search also has a budget of environment steps.
    search_steps = 0
    if SEARCHED in names:
        mean_length = float(recorded.lengths.mean())
        search_steps = search_budget(settings, study.environment, len(study.mining.rules), mean_length)
    policy = study.setup().policy
    inputs = SourceInput(
        policy,
        recorded,
        study.mining,
        study.relations,
        study.rules,
        study.other_rules.rules() if OTHERS in names else {},
        study.seed,
        search=settings.search,
        budget=search_steps,
        negative_first=settings.play.precedence == "negative",
        most_changed=settings.improvement.most_changed,
        # Only such policies draw choices from scores; others draw a continuous action, whose region is the choice.
        samples=settings.play.sample and policy.kind == "log-probabilities",
        decisions=decision_gains(study) if study.uses_mistakes else None,
    )
    sources = open_sources([name for name in names if name != SEARCHED], inputs)
    # With a small budget only the mined rule sets that change most actions are tested.
    if settings.evaluation.most_raced:
        for name in {"mined", "alone"} & sources.keys():
            sources[name] = _most_promising(sources[name], settings.evaluation.most_raced, recorded)
    # The folder keeps what a search proposed, so the search itself is made only if it was not done before.
    if SEARCHED in names:
        search = KeptSearch(study)
        sources[SEARCHED] = search.source(lambda: open_sources([SEARCHED], inputs)[SEARCHED])
    return sources


def _most_promising(source: Hypotheses, most: int, seen: Experiences) -> Hypotheses:
    """Yield the rule sets of a source that would change the most recorded actions; those have the largest effects."""
    rule_sets = list(cast("Sequence[RuleSet]", next(source)))
    changed = [int(changed_states(rule_set, seen).sum()) for rule_set in rule_sets]
    ranked = sorted(range(len(rule_sets)), key=lambda i: -changed[i])[:most]
    yield [rule_sets[i] for i in sorted(ranked) if changed[i]]


def known_before_testing(study: Study) -> Known:
    """Return the known or expected numbers of rule sets before any of them is played."""
    known, length = guess_known(len(study.rule_sets)), float(study.experiences.lengths.mean())
    budget = search_budget(study.settings, study.environment, known.rule_sets, length)
    return replace(known, searched=round(EPISODES_OF_A_SEARCH * budget / length))


class KeptSearch:
    """The proposals of a search, kept in a file of the study's folder, so that a search is done once."""

    def __init__(self, study: Study) -> None:
        self._study, self._path = study, study.folder / "searched.json"
        self._advice = "delete it and run the study again"

    def source(self, search: Callable[[], Hypotheses]) -> Hypotheses:
        """Yield the proposals of the search; where nothing has been searched yet, search, and keep them."""
        if not self._path.exists():
            yield from self._search(search())
        kept = self._read()
        entries = [self._read_entry(entry) for entry in kept["proposed"]]
        yield Proposal([rule_set for rule_set, _ in entries], [shown for _, shown in entries], kept["worst_loss"])

    def _search(self, search: Hypotheses) -> Hypotheses:
        """Search until rule sets are proposed, and keep them with what they cost.

        A search yields trials, which ask for the effects of rule sets, and at last a proposal: the best rule sets.
        """
        tried: set[RuleSet] = set()
        steps, worst = 0, 0.0
        found = next(search)
        while isinstance(found, Trial):
            tried.update(found.rule_sets)
            effects = yield found
            steps += sum(effect.steps for effect in effects)
            worst = max(worst, *(effect.worst_loss for effect in effects))
            found = search.send(effects)
        search.close()
        assert isinstance(found, Proposal)
        proposed = [
            {**rule_set.to_dict(), "shown": list(shown)}
            for rule_set, shown in zip(found.rule_sets, found.shown, strict=True)
        ]
        document = {"tried": len(tried), "steps": steps, "worst_loss": worst, "proposed": proposed}
        write_json(self._path, document, self._study.key)

    def counts(self) -> tuple[int, int]:
        """Return the number of rule sets that were tried, and their environment steps; zeros without a search."""
        if not self._path.exists():
            return 0, 0
        kept = self._read()
        return int(kept["tried"]), int(kept["steps"])

    def _read(self) -> dict[str, Any]:
        kept = read_json(self._path, self._study.key, self._advice)
        kinds = {"tried": int, "steps": int, "worst_loss": float, "proposed": list}
        if not all(isinstance(kept.get(name), kind) for name, kind in kinds.items()):
            raise DamagedFileError(f"{self._path}: is damaged; {self._advice}.")
        return kept

    def _read_entry(self, entry: Any) -> tuple[RuleSet, MeasuredEffect]:
        try:
            mean, error, p, changed, seeds, steps, *rest = entry["shown"]
            share, worst = map(float, rest)
            shown = MeasuredEffect(
                float(mean), float(error), float(p), int(changed), int(seeds), int(steps), share, worst
            )
            return RuleSet.from_dict(entry), shown
        except (LegibleError, AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise DamagedFileError(f"{self._path}: is damaged ({error}); {self._advice}.") from error


_WORDS = {
    "mined": "what the policy does itself, generalised",
    "alone": "what the policy does itself, as it is",
    "searched": "what the policy does not do itself",
    "mistakes": "learned from single decisions",
    "others": "rules of another policy or study, generalised",
    "yours": "rules that you gave, generalised",
}


@dataclass(frozen=True)
class SourceRow:
    """Results of one source of rule sets.

    Parameters
    ----------
    source
        Its name.
    tried
        Rule sets that were played at all.
    tested_held_out
        Those that passed the race and were tested on fresh seeds.
    confirmed
        Those that were confirmed.
    used
        Those in the composition.
    steps
        Environment steps that were played for them. Those of the unguided policy, and the experiences, serve all.
    """

    source: str
    tried: int
    tested_held_out: int
    confirmed: int
    used: int
    steps: int

    @property
    def words(self) -> str:
        """The source in words; "" for one that a user registered."""
        return _WORDS.get(self.source.partition(":")[0], "")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def source_rows(study: Study) -> tuple[SourceRow, ...]:
    """Return for every source of rule sets how many were tried, tested, confirmed and used, and the steps that it took.

    A rule set that several sources proposed counts for each of them; the environment steps of its tests count for the
    first.
    """
    verdicts = study.evaluation.verdicts
    # Rule sets are compared by the rule that they were made from, because compositions leave out some of their rules.
    used = {_origin_key(rule_set) for rule_set in study.improvement.rule_sets}
    # Steps that sources took before their rule sets were tested.
    searched_count, search_steps = KeptSearch(study).counts()
    others = study.other_rules if study.uses_other_rules else None
    steps_before = {SEARCHED: search_steps}
    if others is not None:
        steps_before |= {source_name_of_others(name): steps for name, steps in others.steps().items()}
    if study.uses_mistakes and study.has("mistakes"):
        steps_before["mistakes"] = study.mistakes.steps_played
    # Names in the order of the settings; the source "others" has one name per policy or study. Sources that only the
    # verdicts name come last.
    names_of_others = [source_name_of_others(origin.name) for origin in others.origins] if others is not None else []
    names: list[str] = []
    for setting_name in source_names(study.settings.sources):
        names += names_of_others if setting_name == OTHERS else [setting_name]
    names += [name for verdict in verdicts for name in verdict.sources]
    rows = []
    for name in dict.fromkeys(names):
        of_source = [verdict for verdict in verdicts if name in verdict.sources]
        rows.append(
            SourceRow(
                source=name,
                tried=searched_count if name == SEARCHED else len(of_source),
                tested_held_out=sum(verdict.confirmation is not None for verdict in of_source),
                confirmed=sum(verdict.is_confirmed for verdict in of_source),
                used=sum(_origin_key(verdict.rule_set) in used for verdict in of_source),
                # `source` is the first of `sources`, so that the steps of a test count once.
                steps=steps_before.get(name, 0) + sum(verdict.steps for verdict in of_source if verdict.source == name),
            )
        )
    return tuple(row for row in rows if row.tried)


def _origin_key(rule_set: RuleSet) -> object:
    """Return the key of the rule from which a rule set was made; compositions that leave out rules keep it."""
    return rule_set.source or frozenset(rule_set.rules)
