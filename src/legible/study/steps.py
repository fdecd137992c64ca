"""The steps of a study, each declared once: `STEPS` by name, in their order; `register_step` adds one.

`legible.study.Study` does a step and everything that it needs (`Study.do`), or reads a result that is there
(`Study.read`). A finished step is never done again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legible.errors import LegibleError
from legible.evaluation import Evaluation, Verdict, evaluate
from legible.explanation import explain_weaknesses
from legible.formatting import capitalise, counted, signed
from legible.improvement import Improvement, find_candidates, improve
from legible.mining import Mining, mine
from legible.mistakes import Mistakes
from legible.play import STAGES, Experiences, Known
from legible.play.experiences import ExperienceSetup
from legible.play.stages import seed_of_round
from legible.relations import generalise_all
from legible.rules import describe_rule_set
from legible.study.choices import cut_experiences, intervals_for
from legible.study.collecting import collect_in_units
from legible.study.failures import explain_failures
from legible.study.first_facts import gather_first_facts
from legible.study.formats import KINDS, RESULTS, makers_of
from legible.study.guided_file import is_guided_policy_saved, save_guided_policy
from legible.study.ledgers import split_mistakes, split_weaknesses
from legible.study.mistakes import look_for_mistakes, record_decisions
from legible.study.own_rules import judge_own_rules
from legible.study.references import compare_with_references
from legible.study.rules_from import are_confirmed_kept, keep_confirmed, read_others, write_others
from legible.study.sources import known_before_testing, sources_of
from legible.study.summary import summarise
from legible.study.symmetry import score_symmetries
from legible.study.time_limit import probe_time_limit

if TYPE_CHECKING:
    from legible.study.study import Study

MOST_EXPLAINED = 3


def _save_result(study: Study, path: Path, result: Any) -> None:
    RESULTS.write(path, result, study.key)


def _load_result(study: Study, path: Path) -> Any:
    return RESULTS.read(path, study.key, makers_of(study), KINDS.get(path.name, Any))


@dataclass(frozen=True)
class Step:
    """A step of a study.

    Parameters
    ----------
    name
        What it is called; `Study.read` takes it.
    missing
        Start of the error where its result is asked for but not there, as in "no rules have been mined".
    file
        The file of the folder that keeps its result; the step is done when it is there.
    run
        Does the step and returns its result. What it needs has been done.
    needs
        The names of the steps that come before; a function where that depends on the study.
    save, load
        Write the result to the file, and read it; by default as `legible.study.formats.RESULTS` has it.
    export
        Writes what other programs use, if that is missing; called whenever the step is asked for.
    command
        Options of ``legible run FOLDER`` that do the step, where a plain run may not.
    """

    name: str
    missing: str
    file: str
    run: Callable[[Study], Any]
    needs: tuple[str, ...] | Callable[[Study], tuple[str, ...]] = ()
    save: Callable[[Study, Path, Any], None] = _save_result
    load: Callable[[Study, Path], Any] = _load_result
    export: Callable[[Study, Any], None] | None = None
    command: str = ""

    def needed_by(self, study: Study) -> tuple[str, ...]:
        """Return the steps that must be done before, in a study."""
        return self.needs(study) if callable(self.needs) else self.needs


STEPS: dict[str, Step] = {}


def register_step(step: Step) -> None:
    """Add a step; the steps that it needs must be there, and no other of its name or file."""
    if step.name in STEPS or any(step.file == other.file for other in STEPS.values()):
        raise LegibleError(f"there is a step {step.name!r}, or one that keeps {step.file}, already.")
    unknown = [] if callable(step.needs) else [name for name in step.needs if name not in STEPS]
    if unknown:
        raise LegibleError(f"the step {step.name!r} needs {unknown[0]!r}, which is no step.")
    STEPS[step.name] = step


# --- The steps of the paper ------------------------------------------------------------------------------------------


def _collect(study: Study) -> Experiences:
    setup = ExperienceSetup.of(study.player(), study.environment, study.settings.play)
    return cut_experiences(collect_in_units(study, setup, "experiences"), study.relation_texts)


def _mine(study: Study) -> Mining:
    seen = study.experiences
    return mine(
        study.player(),
        seen,
        seed=study.seed,
        settings=study.settings.mining,
        intervals=intervals_for(study, seen),
        on_progress=study.progress,
    )


def _evaluate(study: Study) -> Evaluation:
    """Return a verdict on every rule set of a study: whether the policy does better when it is guided by it.

    The user sees the best rule set of the first test, before it is tested on held-out seeds, and the confirmed ones.
    """

    def describe(verdict: Verdict, effect: float) -> str:
        """Return a rule set as advice in plain English, with its effect."""
        return f"{capitalise(describe_rule_set(verdict.rule_set, study.space, 'advice'))} ({signed(effect)})"

    def remark_on_candidates(candidates: Sequence[Verdict]) -> None:
        """Name the rule set that looks best before held-out seeds are played."""
        best = max(candidates, key=lambda verdict: verdict.difference)
        study.remark(
            f"Provisional, before the test on fresh seeds: {counted(len(candidates), 'rule set')} may help. "
            f"The best so far: {describe(best, best.difference)}."
        )

    # The smallest effect of interest has been computed from the first episodes; from here on it is a fixed number.
    evaluation = evaluate(
        study.setup(),
        seed=study.seed,
        settings=replace(study.settings.evaluation, relevant=repr(study.first_facts.relevant)),
        sources=sources_of(study),
        run=study.runner("screening", "confirmation", known=known_before_testing(study)),
        on_candidates=remark_on_candidates,
    )
    confirmed = evaluation.confirmed
    if confirmed:
        first = confirmed[0]
        effect = first.confirmation.effect.mean if first.confirmation is not None else first.difference
        study.remark(
            f"Confirmed on fresh seeds: {counted(len(confirmed), 'rule set')}. First: {describe(first, effect)}."
        )
    return evaluation


def _needed_by_evaluation(study: Study) -> tuple[str, ...]:
    others = ("rules from",) if study.other_rules.origins else ()
    return ("generalisations", "first facts", *others, *(("mistakes",) if study.uses_mistakes else ()))


def _export_confirmed(study: Study, evaluation: Evaluation) -> None:
    with suppress(LegibleError):  # where nothing can be written, or another process does
        if not are_confirmed_kept(study, evaluation):
            with study.lock():
                keep_confirmed(study, evaluation)


def _improve(study: Study) -> Improvement:
    evaluation, settings, veto = study.evaluation, study.settings.improvement, study.veto
    known = Known(len(evaluation.verdicts), len(find_candidates(evaluation, settings, veto)))
    is_raced = evaluation.settings.method == "racing"
    of = sum(STAGES[name].episodes(study.settings, known) for name in ("composition", "final"))
    run = study.runner("final" if is_raced else "improvement", of=0 if is_raced else of, known=known)
    seed = seed_of_round(study.seed, evaluation.round)
    return improve(study.setup(), evaluation, seed=seed, settings=settings, veto=veto, run=run)


def _export_guided_policy(study: Study, improvement: Improvement) -> None:
    if len(improvement.composition) and not is_guided_policy_saved(study.folder, improvement, study.key):
        with study.lock():
            save_guided_policy(study.folder, study.guided_policy(), improvement, study.key)


def _explain(study: Study) -> Any:
    return explain_weaknesses(
        study.setup(),
        study.evaluation,
        study.mining,
        study.experiences,
        seed=study.seed,
        most=MOST_EXPLAINED,
        leave_out=study.can_leave_rules_out,
        min_kept=study.settings.mining.min_accuracy,
        run=study.runner("explanation"),
    )


def _needed_by_decisions(study: Study) -> tuple[str, ...]:
    # What the policy does decides how continuous actions are cut.
    return () if study.given_space.is_discrete else ("experiences",)


def _needed_by_mistakes(study: Study) -> tuple[str, ...]:
    return ("decisions",) if study.branching_method().way is not None else ()


def _save_itself(study: Study, path: Path, result: Any) -> None:
    result.save(path, study.key)


def _loader(kind: type[Experiences | Mining | Mistakes]) -> Callable[[Study, Path], Any]:
    """Return the function that reads what `_save_itself` wrote."""
    return lambda study, path: kind.load(path, study.key)


for _step in (
    Step(
        "experiences",
        "no experiences have been collected",
        "experiences.npz",
        _collect,
        save=_save_itself,
        load=_loader(Experiences),
    ),
    Step(
        "first facts",
        "nothing is known about the policy",
        "first-facts.npz",
        gather_first_facts,
        needs=("experiences",),
    ),
    Step("own rules", "your own rules have not been tested", "own-rules.npz", judge_own_rules, needs=("first facts",)),
    Step(
        "mining",
        "no rules have been mined",
        "mining.npz",
        _mine,
        needs=("experiences",),
        save=_save_itself,
        load=_loader(Mining),
    ),
    Step(
        "generalisations",
        "no rules have been generalised",
        "generalisations.npz",
        lambda study: tuple(
            generalise_all([*(mined.rule for mined in study.mining.rules), *study.rules], study.relations)
        ),
        needs=("mining",),
    ),
    Step(
        "rules from",
        "no rules have been mined from other policies",
        "rules-from.json",
        lambda study: study.other_rules.mine(),
        needs=("experiences",),
        save=lambda study, path, found: write_others(path, found, study.key),
        load=lambda study, path: read_others(path, study.key),
    ),
    Step(
        "decisions",
        "no decisions have been recorded",
        "mistakes.npz",
        record_decisions,
        needs=_needed_by_decisions,
        save=_save_itself,
        load=_loader(Experiences),
        command=" --until mistakes",
    ),
    Step(
        "mistakes",
        "no mistakes have been looked for",
        "mistakes.json",
        look_for_mistakes,
        needs=_needed_by_mistakes,
        save=_save_itself,
        load=_loader(Mistakes),
        command=" --until mistakes",
    ),
    Step(
        "evaluation",
        "no rule sets have been tested",
        "evaluation.npz",
        _evaluate,
        needs=_needed_by_evaluation,
        export=_export_confirmed,
    ),
    Step(
        "improvement",
        "no composition has been looked for",
        "improvement.npz",
        _improve,
        needs=("evaluation",),
        export=_export_guided_policy,
    ),
    Step(
        "references",
        "no references have been played",
        "references.npz",
        compare_with_references,
        needs=("improvement",),
    ),
    Step(
        "time limit",
        "no episode has been played beyond the time limit",
        "time-limit.npz",
        probe_time_limit,
        needs=("improvement",),
    ),
    Step(
        "symmetry",
        "the symmetry of the policy has not been measured",
        "symmetry.npz",
        score_symmetries,
        needs=("experiences",),
    ),
    Step("explanations", "no weaknesses have been explained", "explanations.npz", _explain, needs=("evaluation",)),
    Step(
        "failures",
        "failures have not been explained",
        "failures.npz",
        explain_failures,
        needs=("improvement", "explanations"),
    ),
    Step(
        "summary", "the results have not been summarised", "figures.npz", summarise, needs=("improvement", "references")
    ),
    Step(
        "weakness ledgers",
        "the gains of the weaknesses have not been split",
        "weakness-ledgers.npz",
        split_weaknesses,
        needs=("improvement", "summary"),
    ),
    Step(
        "mistake ledgers",
        "the gains of the mistakes have not been split",
        "mistake-ledgers.npz",
        split_mistakes,
        needs=("mistakes",),
    ),
):
    register_step(_step)
