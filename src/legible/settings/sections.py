"""The settings of each step of a study.

- `MiningSettings`, `PlaySettings`, `EvaluationSettings`, `SearchSettings`, `ImprovementSettings`,
  `ReferenceSettings`, `BaselineSettings` and `MistakeSettings`: one for each step.
- `DistillationSettings`: of what comes after a study, the guided policy as a network without rules.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from legible.settings.values import SettingsError, check_least, check_word

Criterion = Literal["agreement", "purity"]
Precedence = Literal["positive", "negative"]
"""Which rules win in a conflict: "positive" is Algorithm 1; with "negative" a blocked action is never enforced."""
Enforce = Literal["typical", "nearest"]
"""What a continuous action becomes that rules move: the typical action of the region, or its nearest point."""
Method = Literal["racing", "paper"]
Candidates = Literal["weaknesses", "confirmed", "best"]
Order = Literal["mined", "effect", "negative-first"]
MistakesWhen = Literal["fast", "always", "never"]
MOST_ROLLOUTS = 512  # of one choice in one rung of the search for mistakes
MOST_DECISIONS = 10_000
STEP_LIMIT = 100_000
MOST_FAILED = 0.01
# Episodes of environments without a vector form are slow and their environments dear to make: units are smaller.
SINGLE_BATCH, SINGLE_UNIT = 25, 100
SINGLE_COMPOSING = 1000  # seeds of a composition there
SINGLE_STEPS = 5  # how many times fewer steps are spent on single decisions there
# With fewer changed episodes the test of the confirmation does not keep its promise where losses are rare and large.
FEWEST_CHANGES = 200
# With fewer changed episodes on a rung of the race a standard error means nothing, and nothing is sure.
FEWEST_RUNG_CHANGES = 8
MOST_RUNGS = 16


@dataclass(frozen=True)
class MiningSettings:
    """What decides which rules are mined."""

    held_out: Annotated[float, "Share of the episodes that learning does not see and on which rules are judged."] = 0.2
    sampled: Annotated[float, "Share of the other states from which rules are learned."] = 1.0
    importance: Annotated[
        str,
        'How the importance of features is found: "lime", "surrogate" (permutation importance of a model that predicts '
        "the policy's choice; it takes LIME's place where the policy does not see the features), "
        '"none" (all features count the same), or the name of a method of your own.',
    ] = "lime"
    lime_states: Annotated[int, "How many states LIME explains."] = 100
    lime_samples: Annotated[int, "Samples that LIME draws for each state."] = 5000
    lime_pools: Annotated[int, "Independent pools that these samples are drawn from."] = 100
    kernel_width: Annotated[
        float,
        "Width of LIME's kernel, as a multiple of the root of the number of features.",
    ] = 0.75
    kernel_counts_numeric: Annotated[bool, "Whether only numeric features count for the kernel's width."] = False
    learner: Annotated[str, 'What learns rules: "ripper", or the name of a learner of your own.'] = "ripper"
    optimizations: Annotated[int, "RIPPER's rounds of optimisation."] = 2
    prune_fraction: Annotated[float, "Share of the states on which RIPPER prunes rules."] = 1 / 3
    description_length_allowance: Annotated[
        float,
        "Bits by which RIPPER's description may grow before it stops.",
    ] = 64.0
    min_accuracy: Annotated[float, "Share of the held-out states that trigger a rule in which it must be right."] = 0.9
    min_coverage: Annotated[float, "Share of the held-out states that must trigger a rule."] = 0.01
    criterion: Annotated[
        Criterion,
        'What accuracy means. "agreement", as in the paper: of the states that trigger the rule, the share in '
        'which the policy did as the rule says. "purity": the share of included states among the included and '
        "excluded ones, which is stricter for negative rules, since nearly any of them agrees with an action that "
        "is rarely taken.",
    ] = "agreement"
    padded_apart: Annotated[
        bool,
        "Whether things that are not there, whose features are padded with zeros, are kept apart from those at 0: a "
        "rule about the distance of a vehicle then asks for its presence.",
    ] = True
    plain_intervals: Annotated[
        bool,
        "Whether intervals are as a person would write them: ends rounded as far as every recorded value stays in its "
        "interval, and rules that say the same in neighbouring intervals drawn together.",
    ] = True

    def __post_init__(self) -> None:
        for name in ("held_out", "sampled"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise SettingsError(f"{name} is a share above 0 and up to 1, got {getattr(self, name)}.")
        if self.held_out == 1.0:
            raise SettingsError("held_out must be below 1: some episodes are needed to learn from.")
        for name in ("min_accuracy", "min_coverage"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise SettingsError(f"{name} is a share between 0 and 1, got {getattr(self, name)}.")
        if self.lime_states < 1:
            raise SettingsError(
                f'lime_states must be at least 1, got {self.lime_states}; importance = "none" leaves LIME out.'
            )
        check_word(self, "criterion")

    @classmethod
    def paper(cls) -> MiningSettings:
        """The authors' settings: the paper's, and those of their experiments where the paper is silent."""
        return cls(
            sampled=0.2,
            kernel_width=0.5,
            kernel_counts_numeric=True,
            optimizations=5,
            prune_fraction=0.33,
            description_length_allowance=128.0,
            padded_apart=False,
            plain_intervals=False,
        )


@dataclass(frozen=True)
class PlaySettings:
    """How episodes are played."""

    epsilon: Annotated[float, "Share of actions that are taken at random, guided and unguided alike."] = 0.0
    epsilon_when_guided: Annotated[
        bool,
        "Whether random actions are taken in states in which a rule triggers, too (among those that the rules "
        "leave). If not, guidance also spares the policy its random actions there, which is an advantage of its "
        "own.",
    ] = True
    sample: Annotated[
        bool,
        "Whether actions are drawn by the policy's probabilities, guided and unguided alike; else the best is taken.",
    ] = False
    precedence: Annotated[
        Precedence,
        'Which rules win where they conflict: "positive", as in the paper\'s Algorithm 1, or "negative".',
    ] = "positive"
    enforce: Annotated[
        Enforce,
        'What a continuous action becomes that rules move into another region: the "typical" action of the policy '
        'there, or the "nearest" point of the region.',
    ] = "typical"
    batch: Annotated[int, "Episodes side by side in a unit of work."] = 256
    unit_episodes: Annotated[int, "Episodes in a unit of work."] = 2500
    step_limit: Annotated[int, "Steps after which an endless episode is cut off."] = STEP_LIMIT
    cost: Annotated[str, 'An entry of the environment\'s infos that is added up beside the reward; "" for none.'] = ""

    @property
    def words(self) -> str:
        """How actions are chosen: results differ much between a policy that is greedy and one that explores."""
        way = "actions are drawn by the policy's probabilities" if self.sample else "greedy, the best action is taken"
        if self.epsilon:
            where = "guided or not" if self.epsilon_when_guided else "but never where a rule triggers"
            way += f", except for {100 * self.epsilon:g} % random actions, {where}"
        return way

    def __post_init__(self) -> None:
        check_least(self, batch=1, unit_episodes=1, step_limit=1)
        if not 0.0 <= self.epsilon <= 1.0:
            raise SettingsError(f"epsilon is a share between 0 and 1, got {self.epsilon}.")
        check_word(self, "precedence")
        check_word(self, "enforce")


@dataclass(frozen=True)
class EvaluationSettings:
    """What decides the verdicts."""

    method: Annotated[
        Method,
        'How rule sets are compared with the unguided policy. "racing": on the same seeds, only the episodes that '
        'guidance changes, and those that do badly are dropped early. "paper": every rule set plays episodes on seeds '
        "of its own, and Welch's test compares them.",
    ] = "racing"
    rung_changes: Annotated[
        int,
        "Racing: changed episodes of each rule set on the first rung, at least 8; each further rung has twice as many.",
    ] = 24
    rungs: Annotated[int, "Racing: how many rungs there are."] = 5
    race_seeds: Annotated[int, "Racing: seeds at most, each played once by the unguided policy."] = 1000
    confirmation_changes: Annotated[
        int,
        "Racing: changed episodes, on fresh seeds, on which a rule set is confirmed; at least 200. Small effects are "
        "confirmed on more, large ones and rule sets that are too rare on fewer. 0 leaves confirmation out.",
    ] = 500
    confirmation_seeds: Annotated[
        int,
        "Racing: fresh seeds at most; a rule set that changes fewer than 200 episodes there is too rare to tell.",
    ] = 4000
    most_confirmed: Annotated[
        int,
        "Racing: rule sets of each source at most that are confirmed, the best ones that differ; 0 for any number. "
        "Mined rules and your own are all confirmed, if they pass the race.",
    ] = 24
    episodes: Annotated[
        int,
        "The paper's method: episodes for the unguided policy and for each rule set in screening (the paper: 250 in "
        "PAC-Man, 100 on the road).",
    ] = 250
    alpha: Annotated[float, "Level of all tests."] = 0.05
    confirmation_episodes: Annotated[
        int,
        "The paper's method: episodes of the fresh block on which candidates are confirmed; 0 leaves confirmation out. "
        "With either method: episodes for every rule that is left out to explain a weakness.",
    ] = 500
    objective: Annotated[
        str,
        'What guidance is to raise: "mean" (of the returns), "median", "worst-tenth" (the mean of the lowest tenth), '
        '"success" (the share of episodes that succeed), or to lower: "cost".',
    ] = "mean"
    constraint: Annotated[
        str,
        'How much may be lost at most elsewhere, such as "worst-tenth no lower than by 20": only what is shown to keep '
        "to it is confirmed and composed. Several with semicolons between them.",
    ] = ""

    @property
    def last_rung(self) -> int:
        """Changed episodes of each rule set that comes to the last rung of the race."""
        return self.rung_changes * 2 ** (self.rungs - 1)

    def __post_init__(self) -> None:
        check_word(self, "method")
        check_least(self, rung_changes=FEWEST_RUNG_CHANGES, rungs=1, race_seeds=2, confirmation_seeds=2)
        if self.rungs > MOST_RUNGS:
            raise SettingsError(f"rungs must be at most {MOST_RUNGS}, got {self.rungs}: each is twice the one before.")
        if self.confirmation_changes != 0 and self.confirmation_changes < FEWEST_CHANGES:
            raise SettingsError(
                f"confirmation_changes must be 0 or at least {FEWEST_CHANGES}, got {self.confirmation_changes}: with "
                "fewer changed episodes rare large losses are missed."
            )
        if self.most_confirmed < 0:
            raise SettingsError(f"most_confirmed cannot be negative, got {self.most_confirmed}.")
        if self.episodes < 2:
            raise SettingsError(f"episodes must be at least 2 to compare returns, got {self.episodes}.")
        if self.confirmation_episodes == 1 or self.confirmation_episodes < 0:
            raise SettingsError(f"confirmation_episodes must be 0 or at least 2, got {self.confirmation_episodes}.")
        if not 0.0 < self.alpha < 1.0:
            raise SettingsError(f"alpha must lie between 0 and 1, got {self.alpha}.")


@dataclass(frozen=True)
class SearchSettings:
    """How rules are searched that the policy does not follow itself."""

    budget: Annotated[
        int,
        "Environment steps that the search may take. 0: 15 million in environments that are stepped in whole batches, "
        "elsewhere as many as the other rule sets take at most.",
    ] = 0
    beam: Annotated[int, "Rule sets that are refined in each round: the best ones."] = 12
    proposed: Annotated[int, "Rule sets at most that the search proposes, which are then tested like others."] = 40
    most_conditions: Annotated[int, "Conditions of a rule at most, 1 to 4."] = 4
    least_changed: Annotated[float, "Share of the recorded states in which a rule set must change the choice."] = 0.002
    most_changed: Annotated[float, "Share of the recorded states in which a rule set may change the choice."] = 0.5
    states: Annotated[int, "Recorded states on which rule sets are judged before anything is played."] = 2000

    def __post_init__(self) -> None:
        check_least(self, budget=0, beam=1, proposed=1, most_conditions=1, states=1)
        if self.most_conditions > 4:
            raise SettingsError(f"most_conditions must be at most 4, got {self.most_conditions}.")
        if not 0.0 <= self.least_changed < self.most_changed <= 1.0:
            raise SettingsError(
                f"least_changed and most_changed are shares, the first the smaller one, got {self.least_changed} and "
                f"{self.most_changed}."
            )


@dataclass(frozen=True)
class ImprovementSettings:
    """What decides the composition."""

    episodes: Annotated[
        int,
        "Seeds on which rule sets are composed: additions are chosen on one half and tested on the other. The "
        "composition is checked on as many other seeds. The paper's method: episodes for each step.",
    ] = 4000
    final_episodes: Annotated[
        int,
        "Episodes of the figure that is quoted: base and composition on the same fresh seeds.",
    ] = 1000
    candidates: Annotated[
        Candidates,
        'Which rule sets are tried: the "best", those that did better in the race, "weaknesses" (those that passed it; '
        'the paper: Welch\'s p below alpha), or only "confirmed" ones.',
    ] = "best"
    most_candidates: Annotated[
        int,
        "Try at most this many at a time, the largest effects first; 0 tries all.",
    ] = 20
    beginnings: Annotated[
        int,
        "How many rule sets a composition is begun with, each by itself; the best of what comes of them counts.",
    ] = 3
    most_changed: Annotated[
        float,
        "Share of the actions that the composition may change; with less, as much is gained as can be for that.",
    ] = 1.0
    order: Annotated[
        Order,
        'The paper\'s method: in which order: as "mined" (the paper), by "effect", or "negative-first".',
    ] = "mined"

    def __post_init__(self) -> None:
        check_least(self, episodes=4, final_episodes=2, beginnings=1)
        if self.most_candidates < 0:
            raise SettingsError(f"most_candidates cannot be negative, got {self.most_candidates}.")
        if not 0.0 < self.most_changed <= 1.0:
            raise SettingsError(f"most_changed is a share above 0 and up to 1, got {self.most_changed}.")
        check_word(self, "candidates")
        check_word(self, "order")


@dataclass(frozen=True)
class ReferenceSettings:
    """What the policy is compared with: random play, every choice taken throughout, other policies."""

    episodes: Annotated[
        int,
        "Episodes of every reference, and of the policy, on the seeds on which the best references are chosen.",
    ] = 200
    quoted: Annotated[
        int,
        "How many constant choices, the best on those seeds, also play the seeds of the final figure, from which they "
        "are quoted; random play and other policies always do.",
    ] = 2
    most_constants: Annotated[
        int,
        "Constant choices that are played at most; of more choices, that many, evenly spread.",
    ] = 30

    def __post_init__(self) -> None:
        if self.episodes < 2:
            raise SettingsError(f"episodes must be at least 2 to compare returns, got {self.episodes}.")
        check_least(self, quoted=1, most_constants=1)


@dataclass(frozen=True)
class BaselineSettings:
    """The paper's baselines."""

    random_tests: Annotated[int, "Random tests that block, and as many that enforce."] = 100
    changes: Annotated[int, "Changes of the policy in each, one percent of the states apiece."] = 3


@dataclass(frozen=True)
class MistakeSettings:
    """What decides which single decisions are looked at, and how closely."""

    when: Annotated[
        MistakesWhen,
        'When a whole run looks for single decisions that cost much: "fast" (where states are copied as rows of a '
        'batch), "always" or "never". `legible mistakes` does so in any case.',
    ] = "fast"
    steps: Annotated[int, "Steps that may be played for it, about."] = 2_000_000
    episodes: Annotated[int, "Episodes that are recorded, from which the decisions come."] = 600
    decisions: Annotated[int, "Decisions that are looked at, at most."] = 2000
    rollouts: Annotated[int, "Rollouts of every choice of every decision."] = 16
    second_rollouts: Annotated[int, "More rollouts where another choice seems better."] = 48
    final_rollouts: Annotated[int, "Rollouts that the quoted figures come from, and that chose nothing."] = 128

    def __post_init__(self) -> None:
        check_least(self, episodes=1, decisions=1, rollouts=4, final_rollouts=8)
        for name in ("rollouts", "second_rollouts", "final_rollouts"):
            if not 2 <= getattr(self, name) <= MOST_ROLLOUTS:
                raise SettingsError(f"{name} must lie in 2 … {MOST_ROLLOUTS}, got {getattr(self, name)}.")
        if self.decisions > MOST_DECISIONS:
            raise SettingsError(f"decisions must be at most {MOST_DECISIONS}, got {self.decisions}.")
        check_least(self, steps=1)
        check_word(self, "when")


@dataclass(frozen=True)
class DistillationSettings:
    """How a guided policy becomes a network without rules."""

    rounds: Annotated[int, "Rounds at most: play, ask the guided policy, learn, look how far it is."] = 12
    patience: Annotated[int, "Rounds without a rise of return or agreement on held-out seeds after which it stops."] = 2
    episodes: Annotated[int, "Episodes of every round whose states are learned from."] = 256
    guided_share: Annotated[
        float,
        "Share of these episodes that the guided policy plays from the second round on (in the first all); the network "
        "plays the others.",
    ] = 0.25
    most_states: Annotated[int, "States that are learned from, at most; the oldest go first."] = 500_000
    steps: Annotated[int, "Gradient steps of every round."] = 1000
    batch: Annotated[int, "States in every gradient step."] = 256
    learning_rate: Annotated[float, "Adam's learning rate at the beginning of a round; it falls to 0 in it."] = 5e-4
    changed_weight: Annotated[
        float,
        "How many times as often, at most, states are drawn in which the rules change what is done, until they are "
        "half of all.",
    ] = 10.0
    check_episodes: Annotated[
        int, "Held-out episodes after every round, which decide when to stop and what to keep."
    ] = 1000
    final_episodes: Annotated[int, "Episodes of the quoted figures, on fresh seeds."] = 2000

    def __post_init__(self) -> None:
        check_least(self, rounds=1, patience=1, episodes=1, most_states=1, steps=1, batch=1)
        check_least(self, check_episodes=2, final_episodes=2)
        if not 0.0 <= self.guided_share <= 1.0:
            raise SettingsError(f"guided_share is a share between 0 and 1, got {self.guided_share}.")
        for name in ("learning_rate", "changed_weight"):
            if not 0.0 < getattr(self, name) < float("inf"):
                raise SettingsError(f"{name} must be a number above 0, got {getattr(self, name)}.")

    def for_single_environments(self) -> DistillationSettings:
        """Return fewer episodes, for environments without a vector form, which are slow."""
        return replace(self, episodes=64, check_episodes=200, final_episodes=500)
