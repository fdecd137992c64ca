"""The stages of a study that play episodes, each declared once.

A stage has a block of seeds of its own, so that what is picked because it did well on some seeds is never quoted from
the same ones. The study, its estimate, the progress bars, the report's table of seeds and the documents all follow
from the declarations here.

- `Stage`: one stage; `STAGES`: all of them, by name, in their order.
- `Known`: what has been found out about a study so far, from which a stage tells how many episodes it plays.
- `declare_stage`: adds one; `stage_seeds`: seeds for some episodes of a stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from legible.errors import LegibleError
from legible.play.episodes import episode_seeds
from legible.settings import MOST_ROLLOUTS, StudySettings

# Every stage of a study has room for this many episodes; blocks of different stages never share a seed.
STAGE_EPISODES = 2**24
MOST_STAGES = 2**30 // STAGE_EPISODES


@dataclass(frozen=True)
class Known:
    """What a study has found out so far, or guesses.

    Parameters
    ----------
    rule_sets
        Rule sets that are tested.
    candidates
        Rule sets that look like weaknesses.
    explained_rules
        Rules that are left out, one at a time, to explain weaknesses.
    references
        Random play, constant choices and other policies that the policy is compared with.
    searched
        Episodes that a search has steps for.
    """

    rule_sets: int
    candidates: int
    explained_rules: int = 0
    references: int = 0
    searched: int = 0


@dataclass(frozen=True)
class Stage:
    """A stage of a study that plays episodes.

    Parameters
    ----------
    name
        What it is called in code, in progress bars and in the report.
    block
        Number of its block of seeds. Numbers are never given anew: they decide the seeds of finished studies.
    step
        The step of a study that plays it: "collect", "evaluate", "improve", "compare", "explain",
        "mistakes" or "baseline"; "distil" is what comes after.
    purpose
        What its episodes are for, in the report's table of seeds and in the documents.
    seeds
        How many seeds it uses, by the settings and what is known.
    episodes
        How many episodes it plays.
    """

    name: str
    block: int
    step: str
    purpose: str
    seeds: Callable[[StudySettings, Known], int]
    episodes: Callable[[StudySettings, Known], int]


def _is_raced(settings: StudySettings) -> bool:
    return settings.evaluation.method == "racing"


def _blocks(settings: StudySettings, known: Known) -> int:
    return (1 + known.rule_sets) * settings.evaluation.episodes


def _screened(settings: StudySettings, known: Known) -> int:
    return 0 if _is_raced(settings) else _blocks(settings, known)


def _confirmed(settings: StudySettings, known: Known) -> int:
    # The unguided policy, every candidate, and the mined rule behind each of them alone.
    if _is_raced(settings) or not known.candidates:
        return 0
    return (1 + 2 * known.candidates) * settings.evaluation.confirmation_episodes


# What a rule set without effect plays on average, as a multiple of the first rung (see `legible.evaluation.racing`).
_USUAL_CHANGES = 4


def _raced(settings: StudySettings, known: Known) -> int:
    if not _is_raced(settings):
        return 0
    evaluation = settings.evaluation
    last = min(evaluation.last_rung, evaluation.race_seeds)
    usual = min(_USUAL_CHANGES * evaluation.rung_changes, last)
    dropped = max(0, known.rule_sets - known.candidates)
    return evaluation.race_seeds + dropped * usual + known.candidates * last


def _race_confirmed(settings: StudySettings, known: Known) -> int:
    changes = min(settings.evaluation.confirmation_changes, settings.evaluation.confirmation_seeds)
    if not _is_raced(settings) or not known.candidates or not changes:
        return 0
    # How many seeds hold this many changed episodes is not known; half of all is a guess.
    return settings.evaluation.confirmation_seeds // 2 + 2 * known.candidates * changes


def _only_raced(number: Callable[[StudySettings], int], *, raced: bool) -> Callable[[StudySettings, Known], int]:
    """Seeds of a stage that only one of the methods has."""
    return lambda settings, _: number(settings) if _is_raced(settings) == raced else 0


# Rule sets that usually join a composition, and the share of the episodes of a trial that have to be played.
_USUAL_JOINED, _USUAL_PLAYED = 4, 0.5


def _composed(settings: StudySettings, known: Known) -> int:
    tried = min(known.candidates, settings.improvement.most_candidates or known.candidates)
    if not _is_raced(settings):
        return (1 + tried) * settings.improvement.episodes
    # What joins is recorded; for each of them some of the others are tried again, and at the end what is not missed.
    joined = min(tried, _USUAL_JOINED)
    return round((1 + joined + _USUAL_PLAYED * tried * (1 + joined / 2)) * settings.improvement.episodes)


def _checked_seeds(settings: StudySettings, known: Known) -> int:
    return settings.improvement.episodes if _is_raced(settings) and known.candidates else 0


def _checked(settings: StudySettings, known: Known) -> int:
    # The unguided policy, the composition, and what else is in the front.
    return (2 + min(known.candidates, _USUAL_JOINED)) * _checked_seeds(settings, known)


def _compared(settings: StudySettings, known: Known) -> int:
    if not known.references:
        return 0
    # The policy and all references; then random play and the best constant choices on the seeds of the final figure.
    quoted = min(known.references, 1 + settings.references.quoted)
    return (1 + known.references) * settings.references.episodes + quoted * settings.improvement.final_episodes


def _explained(settings: StudySettings, known: Known) -> int:
    played = known.explained_rules * _per_explanation(settings)
    most = _raced(settings, known) if _is_raced(settings) else _screened(settings, known)
    return min(played, most) if known.candidates else 0


def _per_explanation(settings: StudySettings) -> int:
    return settings.evaluation.confirmation_episodes or settings.evaluation.episodes


def _tests(settings: StudySettings, known: Known) -> int:
    tests = replace(known, rule_sets=settings.baselines.random_tests)
    return _raced(settings, tests) or _blocks(settings, tests)


def _random_rules(settings: StudySettings, known: Known) -> int:
    return _raced(settings, known) or _blocks(settings, known)


# Every decision that is looked at has room for this many futures; each rung takes its own.
FUTURES = 3 * MOST_ROLLOUTS


def _of_mistakes(settings: StudySettings, _: Known) -> int:
    return 0 if settings.mistakes.when == "never" else settings.mistakes.episodes


SEARCH_SEEDS = 4096
"""Seeds at most on which searched rule sets are tried."""


def _searched(settings: StudySettings, _: Known) -> int:
    return SEARCH_SEEDS if "searched" in settings.sources else 0


STAGES: dict[str, Stage] = {}


def declare_stage(stage: Stage) -> None:
    """Add a stage; its name and its block of seeds must not be taken."""
    for other in STAGES.values():
        if stage.name == other.name or stage.block == other.block:
            raise LegibleError(
                f"stage {stage.name!r} with block {stage.block} of seeds clashes with stage {other.name!r}, block "
                f"{other.block}."
            )
    if not 0 <= stage.block < MOST_STAGES:
        raise LegibleError(f"stage {stage.name!r}: its block of seeds must lie in 0 … {MOST_STAGES - 1}.")
    STAGES[stage.name] = stage


def stage_seeds(seed: int, name: str, first: int, count: int) -> list[int]:
    """Return seeds for some episodes of a stage of the study with a seed."""
    if name not in STAGES:
        raise LegibleError(f"there is no stage {name!r}; they are {', '.join(STAGES)}.")
    if first + count > STAGE_EPISODES:
        raise LegibleError(f"{name}: {first + count} episodes are more than a stage holds ({STAGE_EPISODES}).")
    return episode_seeds(seed, STAGES[name].block * STAGE_EPISODES + first, count)


for _stage in (
    Stage(
        "experiences",
        0,
        "collect",
        "what rules are mined from",
        lambda settings, _: settings.episodes,
        lambda settings, _: settings.episodes,
    ),
    Stage(
        "screening",
        1,
        "evaluate",
        "the unguided policy, then every rule set, on seeds of their own",
        _screened,
        _screened,
    ),
    Stage(
        "confirmation",
        2,
        "evaluate",
        "all candidates and the unguided policy, on the same seeds",
        _only_raced(lambda settings: settings.evaluation.confirmation_episodes, raced=False),
        _confirmed,
    ),
    Stage(
        "search",
        19,
        "evaluate",
        "the unguided policy and rule sets that are searched, on the same seeds: which of them are tested",
        _searched,
        lambda settings, known: known.searched if _searched(settings, known) else 0,
    ),
    Stage(
        "racing",
        9,
        "evaluate",
        "the unguided policy and every rule set, on the same seeds",
        _only_raced(lambda settings: settings.evaluation.race_seeds, raced=True),
        _raced,
    ),
    Stage(
        "racing confirmation",
        10,
        "evaluate",
        "the unguided policy and the rule sets that passed the race, on the same seeds",
        _only_raced(lambda settings: settings.evaluation.confirmation_seeds, raced=True),
        _race_confirmed,
    ),
    Stage(
        "composition",
        3,
        "improve",
        "every step of the composition, on the same seeds",
        lambda settings, _: settings.improvement.episodes,
        _composed,
    ),
    Stage(
        "composition check",
        13,
        "improve",
        "the composition, and others that change less, beside the unguided policy: none of them was chosen there",
        _checked_seeds,
        _checked,
    ),
    Stage(
        "final",
        4,
        "improve",
        "the figures that are quoted: unguided, guided and references, on the same seeds",
        lambda settings, _: settings.improvement.final_episodes,
        lambda settings, _: 2 * settings.improvement.final_episodes,
    ),
    Stage(
        "references",
        8,
        "compare",
        "the unguided policy and all references, on the same seeds: which of them are quoted",
        lambda settings, _: settings.references.episodes,
        _compared,
    ),
    Stage(
        "explanation",
        7,
        "explain",
        "what each rule of a weakness adds: the rule set with and without it, on the same seeds",
        lambda settings, _: _per_explanation(settings),
        _explained,
    ),
    Stage("random tests", 5, "baseline", "the paper's baseline RT, as in screening", _tests, _tests),
    Stage("random rules", 6, "baseline", "the paper's baseline RR, as in screening", _random_rules, _random_rules),
    Stage(
        "mistakes",
        11,
        "mistakes",
        "the unguided policy, whose single decisions are looked at",
        _of_mistakes,
        _of_mistakes,
    ),
    Stage(
        "mistakes rollouts",
        12,
        "mistakes",
        "futures of single decisions, from the decision on, the same for all choices",
        lambda settings, known: FUTURES * settings.mistakes.decisions if _of_mistakes(settings, known) else 0,
        lambda *_: 0,  # parts of episodes: their budget is one of steps
    ),
    Stage(
        "comparison",
        18,
        "comparison",
        "rule sets of two studies with both policies, on the same seeds (legible compare)",
        lambda *_: 0,  # no part of a study by itself
        lambda *_: 0,
    ),
    *(
        Stage(name, block, "distil", purpose, lambda *_: 0, lambda *_: 0)  # after a study, if at all
        for name, block, purpose in (
            ("distillation", 14, "states that a network without rules learns from"),
            ("distillation check", 15, "when that stops, and which network is kept"),
            ("distilled", 16, "the figures that are quoted: the policy, guided, and the network without rules"),
            ("rounds", 17, "the networks of all rounds of mending, on the same seeds"),
        )
    ),
):
    declare_stage(_stage)
