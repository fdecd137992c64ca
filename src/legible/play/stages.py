"""The stages of a study that play episodes, each declared once.

Every stage has its own block of seeds, so that results which were selected on some seeds are never reported from the
same seeds. The study, its cost estimate, the progress bars, the report's table of seeds and the documentation all
follow from these declarations.

- `Stage`: one stage; `STAGES`: all stages by name, in order.
- `Known`: what a study knows so far, from which a stage computes its number of episodes.
- `declare_stage`: adds a stage; `stage_seeds`: seeds for some episodes of a stage; `seed_of_round`: for studies that
  are continued on new seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from legible.errors import LegibleError
from legible.play.episodes import episode_seeds
from legible.settings import MOST_ROLLOUTS, StudySettings
from legible.streams import check_seed

STAGE_EPISODES = 2**24
"""Capacity of a stage in episodes; blocks of different stages never share a seed."""
MOST_STAGES = 2**30 // STAGE_EPISODES
ROUND_EPISODES = 2**20
"""Episodes of a stage in each round of a study that is continued; see `seed_of_round`."""
FUTURES_PER_DECISION = 4 * MOST_ROLLOUTS
"""Seeds reserved for the futures of each decision of the mistakes stage: for three rungs and the quoted figures."""
SEARCH_SEEDS = 4096
"""Maximum number of seeds on which searched rule sets are tried."""

# Assumptions of the cost estimate: the average number of changed episodes that a rule set without effect plays, as a
# multiple of the first rung (see `legible.evaluation.racing`); the rule sets that join a composition; and the share of
# the episodes of a trial that have to be played.
_USUAL_CHANGES, _USUAL_JOINED, _USUAL_PLAYED = 4, 4, 0.5


@dataclass(frozen=True)
class Known:
    """Numbers that a study knows so far, or expects."""

    rule_sets: int  # rule sets to test
    candidates: int  # rule sets that look like weaknesses
    explained_rules: int = 0  # rules that are left out, one at a time, to explain weaknesses
    references: int = 0  # baselines: random play, constant actions and other policies that the policy is compared with
    searched: int = 0  # episodes that the step budget of the search allows


@dataclass(frozen=True)
class Stage:
    """A stage of a study that plays episodes."""

    name: str  # name in code, in progress bars and in the report
    # Number of its block of seeds. Never reuse a number: it decides the seeds of finished studies.
    block: int
    # The step of a study that plays it: "collect", "evaluate", "improve", "compare", "explain", "mistakes" or
    # "failures"; "discover" runs before a study; "distil", "try", "compare policies", "exploit", "verify" and
    # "symmetry" run after a study, or without one
    step: str
    purpose: str  # what its episodes are for, in the report's table of seeds and in the documentation
    # Compute from the settings and from what is known how many seeds the stage uses, and how many episodes it plays
    seeds: Callable[[StudySettings, Known], int]
    episodes: Callable[[StudySettings, Known], int]


def _is_raced(settings: StudySettings) -> bool:
    return settings.evaluation.method == "racing"


def _only_raced(number: Callable[[StudySettings], int], *, raced: bool) -> Callable[[StudySettings, Known], int]:
    """Return the number of seeds of a stage that only one of the two methods has."""
    return lambda settings, _: number(settings) if _is_raced(settings) == raced else 0


def _screened(settings: StudySettings, known: Known) -> int:
    return 0 if _is_raced(settings) else (1 + known.rule_sets) * settings.evaluation.episodes


def _raced(settings: StudySettings, known: Known) -> int:
    if not _is_raced(settings):
        return 0
    evaluation = settings.evaluation
    last = min(evaluation.last_rung, evaluation.race_seeds)
    usual = min(_USUAL_CHANGES * evaluation.rung_changes, last)
    dropped = max(0, known.rule_sets - known.candidates)
    return evaluation.race_seeds + dropped * usual + known.candidates * last


def _confirmed(settings: StudySettings, known: Known) -> int:
    # The unguided policy, every candidate, and the single mined rule behind each of them.
    if _is_raced(settings) or not known.candidates:
        return 0
    return (1 + 2 * known.candidates) * settings.evaluation.confirmation_episodes


def _race_confirmed(settings: StudySettings, known: Known) -> int:
    changes = min(settings.evaluation.confirmation_changes, settings.evaluation.confirmation_seeds)
    if not _is_raced(settings) or not known.candidates or not changes:
        return 0
    # The number of seeds that hold this many changed episodes is unknown; half of all seeds is a guess.
    # Most candidates are given up early, or play the rule behind them, too.
    return settings.evaluation.confirmation_seeds // 2 + known.candidates * changes


def _composed(settings: StudySettings, known: Known) -> int:
    tried = min(known.candidates, settings.improvement.most_candidates or known.candidates)
    if not _is_raced(settings):
        return (1 + tried) * settings.improvement.episodes
    if settings.improvement.seeds == "confirmation":  # whose episodes are there: only combinations are played
        return round(_USUAL_PLAYED * tried * settings.evaluation.confirmation_changes)
    # Every rule set that joins is recorded; after each, some of the others are tried again; redundant ones are removed.
    joined = min(tried, _USUAL_JOINED)
    return round((1 + joined + _USUAL_PLAYED * tried * (1 + joined / 2)) * settings.improvement.episodes)


def _checked_seeds(settings: StudySettings, known: Known) -> int:
    return settings.improvement.episodes if _is_raced(settings) and known.candidates else 0


def _checked(settings: StudySettings, known: Known) -> int:
    # The composition, and the other compositions of the front. The unguided policy has played the confirmation.
    if settings.improvement.seeds == "confirmation":  # usually not played; the composition and the unguided policy
        return settings.evaluation.confirmation_changes if known.candidates else 0
    return min(1 + known.candidates, settings.improvement.front_points) * _checked_seeds(settings, known)


def _compared(settings: StudySettings, known: Known) -> int:
    if not known.references:
        return 0
    # The policy and all baselines; then random play and the best constant actions on the seeds of the final figure.
    quoted = min(known.references, 1 + settings.references.quoted)
    return (1 + known.references) * settings.references.episodes + quoted * settings.improvement.final_episodes


def _per_explanation(settings: StudySettings, _: Known) -> int:
    return settings.evaluation.confirmation_episodes or settings.evaluation.episodes


def _explained(settings: StudySettings, known: Known) -> int:
    played = known.explained_rules * _per_explanation(settings, known)
    return min(played, _raced(settings, known) or _screened(settings, known)) if known.candidates else 0


def _mistakes(settings: StudySettings, _: Known) -> int:
    return 0 if settings.mistakes.when == "never" else settings.mistakes.episodes


def _searched(settings: StudySettings, _: Known) -> int:
    return SEARCH_SEEDS if "searched" in settings.sources else 0


def _failures(settings: StudySettings, _: Known) -> int:
    return settings.references.episodes


def _none(*_: object) -> int:
    return 0


STAGES: dict[str, Stage] = {}


def declare_stage(stage: Stage) -> None:
    """Add a stage; raise if its name or its block of seeds is taken."""
    for other in STAGES.values():
        if stage.name == other.name or stage.block == other.block:
            raise LegibleError(
                f"stage {stage.name!r} (block {stage.block}) clashes with stage {other.name!r} (block {other.block}). "
                "Choose an unused name and an unused block."
            )
    if not 0 <= stage.block < MOST_STAGES:
        raise LegibleError(f"stage {stage.name!r}: its block of seeds must lie in 0 … {MOST_STAGES - 1}.")
    STAGES[stage.name] = stage


def seed_of_round(seed: int, number: int) -> int:
    """Return the seed with which every stage plays seeds of its block that it plays in no other round of a study."""
    return seed + number * 2**64


def stage_seeds(seed: int, name: str, first: int, count: int) -> list[int]:
    """Return the seeds of the episodes ``first … first + count - 1`` of a stage."""
    if name not in STAGES:
        raise LegibleError(f"there is no stage {name!r}; they are {', '.join(STAGES)}.")
    number, seed = divmod(check_seed(seed), 2**64)
    first += number * ROUND_EPISODES
    if first + count > STAGE_EPISODES:
        raise LegibleError(f"{name}: {first + count} episodes are more than a stage holds ({STAGE_EPISODES}).")
    return episode_seeds(seed, STAGES[name].block * STAGE_EPISODES + first, count)


for _stage in (
    Stage(
        "experiences",
        0,
        "collect",
        "the experiences from which rules are mined",
        lambda settings, _: settings.episodes,
        lambda settings, _: settings.episodes,
    ),
    Stage(
        "screening",
        1,
        "evaluate",
        "the unguided policy and every rule set, each on different seeds",
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
        "the unguided policy and searched rule sets, on the same seeds, to choose which of them are tested",
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
        "the unguided policy, the rule sets that passed the race, and the composition, on the same seeds",
        _only_raced(lambda settings: settings.evaluation.confirmation_seeds, raced=True),
        _race_confirmed,
    ),
    Stage(
        "composition",
        3,
        "improve",
        "every step of the composition, on the same seeds; in slow environments, on those of the confirmation",
        lambda settings, _: settings.improvement.episodes,
        _composed,
    ),
    Stage(
        "composition check",
        13,
        "improve",
        "the same for the composition and others that change less, where the confirmation selected them",
        _checked_seeds,
        _checked,
    ),
    Stage(
        "final",
        4,
        "improve",
        "the reported figures: unguided, guided and baselines, on the same seeds",
        lambda settings, _: settings.improvement.final_episodes,
        lambda settings, _: 2 * settings.improvement.final_episodes,
    ),
    Stage(
        "references",
        8,
        "compare",
        "the unguided policy and all baselines, on the same seeds, to choose which baselines are reported",
        lambda settings, _: settings.references.episodes,
        _compared,
    ),
    Stage(
        "explanation",
        7,
        "explain",
        "the contribution of each rule of a weakness: the rule set with and without it, on the same seeds",
        _per_explanation,
        _explained,
    ),
    Stage("mistakes", 11, "mistakes", "the unguided policy, whose single decisions are examined", _mistakes, _mistakes),
    Stage(
        "mistakes rollouts",
        12,
        "mistakes",
        "futures of single decisions, the same for all choices",
        lambda settings, known: FUTURES_PER_DECISION * settings.mistakes.decisions if _mistakes(settings, known) else 0,
        _none,  # parts of episodes: their budget is in steps
    ),
    Stage("own rules", 24, "evaluate", "your own rules and the unguided policy, on the same seeds", _none, _none),
    Stage("failures", 25, "failures", "held-out episodes on which failure modes are judged", _failures, _failures),
    Stage("failures rollouts", 26, "failures", "futures of failing episodes with other choices", _none, _none),
    Stage("causes rollouts", 27, "failures", "futures of single decisions, to diagnose mistakes", _none, _none),
    # At most 500 episodes in a study; also played without one, by `legible relations symmetry`.
    Stage("symmetry", 29, "symmetry", "a policy, alone and averaged over related states", _none, _none),
    # Played after a study, or without one. Block 18 was used by a stage that no longer exists.
    Stage("try", 20, "try", "your own rules and the unguided policy, on the same seeds, to explore", _none, _none),
    Stage("try confirmation", 21, "try", "the same on seeds that no other rule was tried on", _none, _none),
    Stage("bench", 33, "try", "confirmations in the workbench, a block of seeds for each", _none, _none),
    Stage("compare", 22, "compare policies", "several policies, on the same seeds", _none, _none),
    Stage("exploit", 34, "exploit", "a policy and its repair, against old opponents and the exploiter", _none, _none),
    Stage("verify", 23, "verify", "a new policy and that of a study, on the same seeds", _none, _none),
    Stage("discovery", 28, "discover", "relations that are proposed, and their proof on other episodes", _none, _none),
    Stage("distillation", 14, "distil", "states from which a network without rules learns", _none, _none),
    Stage("distillation check", 15, "distil", "when to stop, and which network to keep", _none, _none),
    Stage("distilled", 16, "distil", "the reported figures: unguided, guided and distilled policy", _none, _none),
    Stage("rounds", 17, "distil", "the networks of all rounds of mending, on the same seeds", _none, _none),
):
    declare_stage(_stage)
