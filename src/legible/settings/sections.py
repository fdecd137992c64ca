"""The settings of each step of a study.

- `MiningSettings`, `PlaySettings`, `EvaluationSettings`, `SearchSettings`, `ImprovementSettings`,
  `ReferenceSettings` and `MistakeSettings`: one for each step.
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
Method = Literal["racing", "paper", "unpaired"]
Candidates = Literal["weaknesses", "confirmed", "best"]
ComposedOn = Literal["own", "confirmation"]
Order = Literal["mined", "effect", "negative-first"]
MistakesWhen = Literal["fast", "always", "never"]
MOST_ROLLOUTS = 512  # of one choice in one rung of the search for mistakes
MOST_DECISIONS = 8_000
STEP_LIMIT = 100_000
MOST_FAILED = 0.01
# Episodes of environments without a vector form are slow and their environments dear to make: units are smaller.
SINGLE_BATCH, SINGLE_UNIT = 25, 100
SINGLE_COMPOSING = 1000  # seeds of a composition there
SINGLE_ALIKE = 2  # rule sets per weakness that are confirmed there
SINGLE_STEPS = 5  # how many times fewer steps are spent on single decisions there
# With fewer changed episodes the test of the confirmation does not keep its promise where losses are rare and large.
FEWEST_CHANGES = 200
# With fewer changed episodes on a rung of the race a standard error means nothing, and nothing is sure.
FEWEST_RUNG_CHANGES = 8
MOST_RUNGS = 16


@dataclass(frozen=True)
class MiningSettings:
    """Settings of mining."""

    held_out: Annotated[float, "Share of the episodes that are held out to judge rules."] = 0.2
    sampled: Annotated[float, "Share of the remaining states from which rules are learned."] = 1.0
    importance: Annotated[
        str,
        'Method for feature importance: "lime", "surrogate" (permutation importance of a model of the policy; used '
        'instead of LIME where the policy does not see the features), "none", or the name of a registered method.',
    ] = "lime"
    lime_states: Annotated[int, "Number of states that LIME explains."] = 100
    lime_samples: Annotated[int, "Samples that LIME draws for each state."] = 5000
    lime_pools: Annotated[int, "Independent pools that these samples are drawn from."] = 100
    kernel_width: Annotated[
        float, "Width of LIME's kernel, as a multiple of the square root of the number of features."
    ] = 0.75
    kernel_counts_numeric: Annotated[bool, "Count only numeric features for the kernel width."] = False
    learner: Annotated[str, 'Rule learner: "ripper", or the name of a registered one.'] = "ripper"
    optimizations: Annotated[int, "RIPPER's optimisation rounds."] = 2
    prune_fraction: Annotated[float, "Share of the states on which RIPPER prunes rules."] = 1 / 3
    description_length_allowance: Annotated[
        float, "Bits by which RIPPER's description length may exceed the minimum before it stops."
    ] = 64.0
    min_accuracy: Annotated[float, "Minimum accuracy of a rule on the held-out states that trigger it."] = 0.9
    min_coverage: Annotated[float, "Minimum share of the held-out states that trigger a rule."] = 0.01
    criterion: Annotated[
        Criterion,
        'Measure of a rule\'s accuracy. "agreement", as in the paper: the share of the states that trigger the rule in '
        'which the policy acts as it says. "purity": the share of positive examples among the training examples that '
        "trigger it; this is stricter for rules against rarely taken actions, with which the policy nearly always "
        "agrees.",
    ] = "agreement"
    padded_apart: Annotated[
        bool,
        "Treat absent objects, whose features are padded with zeros, as different from objects at 0: a rule about "
        "the distance of a vehicle then requires that the vehicle is present.",
    ] = True
    plain_intervals: Annotated[
        bool,
        "Round interval ends as far as every recorded value stays in its interval, and merge rules that say the "
        "same in neighbouring intervals.",
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
        """The authors' settings: the paper's, and the settings of their experiments where the paper gives none."""
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
    """Settings of play."""

    epsilon: Annotated[float, "Share of random actions, guided and unguided alike."] = 0.0
    epsilon_when_guided: Annotated[
        bool,
        "Take random actions also where a rule triggers (among the actions that the rules allow). Otherwise "
        "guidance also protects the policy from random actions, which is an unfair advantage.",
    ] = True
    sample: Annotated[
        bool,
        "Sample actions from the policy's probabilities, guided and unguided alike, instead of taking the best one.",
    ] = False
    precedence: Annotated[
        Precedence, 'Rules that win conflicts: "positive" (the paper\'s Algorithm 1) or "negative".'
    ] = "positive"
    enforce: Annotated[
        Enforce,
        'Continuous action that replaces one outside the allowed region: the policy\'s "typical" action in the '
        'region, or the "nearest" point of the region.',
    ] = "typical"
    masks: Annotated[
        bool,
        "Keep to the environment's action masks: those of action_masks(), of info['action_mask'], or of the entry "
        "'action_mask' of observations.",
    ] = True
    batch: Annotated[int, "Episodes played side by side in a unit of work."] = 256
    unit_episodes: Annotated[int, "Episodes in a unit of work."] = 2500
    step_limit: Annotated[int, "Steps after which an endless episode is cut off."] = STEP_LIMIT
    cost: Annotated[
        str, 'Entry of the environment\'s infos that is summed up as a cost, next to the reward; "" for none.'
    ] = ""
    endings: Annotated[
        str,
        "MODULE:FUNCTION that names the ending of an episode from its last step, such as 'failure: it hits the wall'; "
        '"": as the environment reports it.',
    ] = ""
    terms: Annotated[
        str,
        "MODULE:FUNCTION that returns the terms of the reward of a step by name; "
        '"": the numbers in the environment\'s infos.',
    ] = ""

    @property
    def words(self) -> str:
        """The way of choosing actions: results differ much between a policy that is greedy and one that explores."""
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
    """Settings of the evaluation."""

    method: Annotated[
        Method,
        'Comparison of rule sets with the unguided policy. "racing": in pairs on the same seeds; bad rule sets are '
        'dropped early. "paper": on separate seeds with Welch\'s test; confirmed on the same seeds. "unpaired": on '
        "separate seeds throughout, for environments in which the same seed does not give the same episode.",
    ] = "racing"
    rung_changes: Annotated[
        int, "Racing: changed episodes of each rule set on the first rung, at least 8; each further rung doubles it."
    ] = 24
    rungs: Annotated[int, "Racing: number of rungs."] = 5
    race_seeds: Annotated[int, "Racing: maximum number of seeds; the unguided policy plays each once."] = 1000
    confirmation_changes: Annotated[
        int,
        "Racing: changed episodes on held-out seeds on which a rule set is confirmed, at least 200. Small effects "
        "get more, large effects and rare rule sets fewer. 0: no confirmation.",
    ] = 500
    confirmation_seeds: Annotated[
        int,
        "Racing: maximum number of held-out seeds; a rule set that changes fewer than 200 episodes there is too "
        "rare to judge.",
    ] = 4000
    most_raced: Annotated[
        int,
        "Racing: maximum number of mined rule sets, with and without related forms, that are raced; rule sets that "
        "would change the most recorded actions come first. "
        "0: all. Short runs and slow environments lower it.",
    ] = 0
    most_confirmed: Annotated[
        int,
        "Racing: maximum number of rule sets per source that are confirmed, the best distinct ones; 0: no limit. "
        "Mined rules (unless most_raced limits them) and your own are always confirmed if they pass the race.",
    ] = 24
    most_alike: Annotated[
        int,
        "Racing: maximum number of searched rule sets per weakness that are confirmed, the best ones; 0: no limit. "
        "Two rule sets reveal the same weakness if their changed states overlap by same_weakness. Slow environments "
        "confirm two: the second in case that the first fails by chance.",
    ] = 0
    episodes: Annotated[
        int,
        "Paper's method: episodes of the unguided policy and of each rule set in screening (the paper: 250 in PAC-"
        "Man, 100 on the road).",
    ] = 250
    alpha: Annotated[float, "Significance level of all tests."] = 0.05
    confirmation_episodes: Annotated[
        int,
        "Paper's method: held-out episodes on which candidates are confirmed; 0: no confirmation. Both methods: "
        "episodes for each rule that is left out to explain a weakness.",
    ] = 500
    objective: Annotated[
        str,
        'Figure that guidance should raise: the "mean" or "median" return, "worst-tenth" (mean of the lowest tenth), '
        '"success" (share of successful episodes), or a reward term or other number of the infos ("term:NAME"). '
        '"cost" is lowered.',
    ] = "mean"
    relevant: Annotated[
        str,
        'Smallest effect of interest: points ("5"), or a percentage ("2 %") of the scale of the task. The scale is the '
        "distance from the policy's mean return to the mean return of random play, or the standard deviation of "
        'returns if that is larger. Only larger effects count as weaknesses; with "0", every gain does.',
    ] = "2 %"
    constraint: Annotated[
        str,
        'Largest loss allowed elsewhere, such as "worst-tenth no lower than by 20": only rule sets that provably '
        "respect it are confirmed and composed. Separate several with semicolons.",
    ] = ""

    worst_loss: Annotated[
        float,
        "Largest loss of an episode that is possible, if you know it; 0: the largest that the study has seen. A gain "
        "is confirmed only if losses of this size are too rare to cancel it.",
    ] = 0.0
    until_excluded: Annotated[
        bool,
        "Racing: confirm on as many changed episodes as exclude that rare losses cancel the gain, up to "
        "most_excluding_seeds.",
    ] = False
    most_excluding_seeds: Annotated[int, "Racing: maximum number of seeds for until_excluded."] = 50_000
    target_z: Annotated[
        float,
        "Advanced, racing: z (mean effect divided by its standard error) that a rule set should reach on the last and "
        "largest sample of the race. Larger values drop more rule sets. With 2.2, a rule set that gains 0.2 standard "
        "deviations per changed episode reaches the confirmation in 80 % of simulated races.",
    ] = 2.2
    drop_margin_z: Annotated[
        float,
        "Advanced, racing: a rule set is dropped if its z is more than this below target_z (scaled down for smaller "
        "samples). Smaller values drop more. With 0.7, each sample drops a quarter of the rule sets that are worth "
        "finding, and the small first samples drop most of the others.",
    ] = 0.7
    accept_z: Annotated[
        float,
        "Advanced, racing: z at which a rule set goes to the confirmation at once; 3.3 is a one-sided p of 0.0005.",
    ] = 3.3
    same_weakness: Annotated[
        float,
        "Advanced: smallest overlap of changed states, corrected for chance, at which two rule sets count as one "
        "weakness.",
    ] = 0.7
    imitation: Annotated[
        float, "Advanced: share of steps with one action from which on a guided policy only imitates a constant action."
    ] = 0.9

    @property
    def smallest_effect(self) -> float:
        """The smallest effect of interest in points; 0 while it is a share, see `legible.evaluation.relevance`."""
        return 0.0 if self.relevant.endswith("%") else float(self.relevant)

    @property
    def last_rung(self) -> int:
        """Changed episodes of each rule set that comes to the last rung of the race."""
        return self.rung_changes * 2 ** (self.rungs - 1)

    def __post_init__(self) -> None:
        """Refuse settings with which no valid test is possible; each error names the setting and its limit."""
        check_word(self, "method")
        # Numbers that have a lower limit: "changes" are changed episodes, of which a test needs several.
        check_least(self, rung_changes=FEWEST_RUNG_CHANGES, rungs=1, race_seeds=2, confirmation_seeds=2)
        check_least(self, most_excluding_seeds=2)
        if self.rungs > MOST_RUNGS:
            raise SettingsError(f"rungs must be at most {MOST_RUNGS}, got {self.rungs}: each is twice the one before.")
        if self.confirmation_changes != 0 and self.confirmation_changes < FEWEST_CHANGES:
            raise SettingsError(
                f"confirmation_changes must be 0 or at least {FEWEST_CHANGES}, got {self.confirmation_changes}: with "
                "fewer changed episodes rare large losses are missed."
            )
        # 0 switches some limits off.
        if self.most_confirmed < 0:
            raise SettingsError(f"most_confirmed cannot be negative, got {self.most_confirmed}.")
        if not 0.0 <= self.worst_loss < float("inf"):
            raise SettingsError(f"worst_loss is the size of a loss, a number of at least 0, got {self.worst_loss}.")
        if self.episodes < 2:
            raise SettingsError(f"episodes must be at least 2 to compare returns, got {self.episodes}.")
        if self.confirmation_episodes == 1 or self.confirmation_episodes < 0:
            raise SettingsError(f"confirmation_episodes must be 0 or at least 2, got {self.confirmation_episodes}.")
        for name in ("alpha", "same_weakness", "imitation"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise SettingsError(f"{name} must lie between 0 and 1, got {getattr(self, name)}.")


@dataclass(frozen=True)
class SearchSettings:
    """Settings of the search for rules that the policy does not follow."""

    budget: Annotated[
        int,
        "Environment steps of the search. 0: 15 million in environments with batched stepping, otherwise as many "
        "as testing the other rule sets takes.",
    ] = 0
    beam: Annotated[int, "Rule sets that are refined in each round."] = 12
    proposed: Annotated[int, "Maximum number of rule sets that the search proposes for testing."] = 40
    most_conditions: Annotated[int, "Maximum number of conditions of a rule, 1 to 4."] = 4
    least_changed: Annotated[float, "Minimum share of the recorded states in which a rule set changes the action."] = (
        0.002
    )
    most_changed: Annotated[float, "Maximum share of the recorded states in which a rule set changes the action."] = 0.5
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
    """Settings of the composition."""

    episodes: Annotated[
        int,
        "Seeds on which rule sets are composed: additions are chosen on one half and tested on the other. The "
        "composition is checked on as many other seeds. The paper's method: episodes for each step.",
    ] = 4000
    final_episodes: Annotated[
        int, "Episodes of the quoted figures: unguided and guided policy on the same held-out seeds."
    ] = 1000
    candidates: Annotated[
        Candidates,
        'Rule sets that are tried: the "best" of the race, "weaknesses" (those that passed it; the paper: Welch\'s '
        'p below alpha), or only "confirmed" ones.',
    ] = "best"
    seeds: Annotated[
        ComposedOn,
        'Racing: seeds on which rule sets are composed: their "own", or those of the "confirmation", on which the '
        "candidates have played already. That takes about half as many episodes, which suits slow environments; only "
        "rule sets that helped there are combined, and the check allows for the choice.",
    ] = "own"
    most_candidates: Annotated[int, "Maximum number of rule sets tried at a time, largest effects first; 0: all."] = 20
    beginnings: Annotated[
        int, "Number of rule sets that a composition is started from; the best resulting composition is kept."
    ] = 3
    most_changed: Annotated[float, "Maximum override rate of the composition."] = 1.0
    front_points: Annotated[
        int,
        "Maximum number of compositions with other override rates, including the chosen one, whose gains are measured.",
    ] = 6
    order: Annotated[
        Order, 'Paper\'s method: order of trying: as "mined" (the paper), by "effect", or "negative-first".'
    ] = "mined"

    def __post_init__(self) -> None:
        check_least(self, episodes=4, final_episodes=2, beginnings=1, front_points=1)
        if self.most_candidates < 0:
            raise SettingsError(f"most_candidates cannot be negative, got {self.most_candidates}.")
        if not 0.0 < self.most_changed <= 1.0:
            raise SettingsError(f"most_changed is a share above 0 and up to 1, got {self.most_changed}.")
        for name in ("candidates", "seeds", "order"):
            check_word(self, name)


@dataclass(frozen=True)
class ReferenceSettings:
    """Settings of the baselines: random play, constant actions, other policies."""

    episodes: Annotated[
        int, "Episodes of every baseline and of the policy, on the seeds on which the best baselines are chosen."
    ] = 200
    quoted: Annotated[
        int,
        "Number of constant actions, the best on those seeds, that also play the final seeds, from which they are "
        "quoted; random play and other policies always do.",
    ] = 2
    most_constants: Annotated[
        int, "Maximum number of constant actions that are played; if there are more, an evenly spread selection."
    ] = 30

    def __post_init__(self) -> None:
        if self.episodes < 2:
            raise SettingsError(f"episodes must be at least 2 to compare returns, got {self.episodes}.")
        check_least(self, quoted=1, most_constants=1)


@dataclass(frozen=True)
class MistakeSettings:
    """Settings of the search for single mistakes."""

    when: Annotated[
        MistakesWhen,
        'When a run looks for single mistakes: "fast" (where states can be copied in batches), "always" or '
        '"never". `legible run --until mistakes` always does.',
    ] = "fast"
    steps: Annotated[int, "Environment steps, approximately."] = 2_000_000
    episodes: Annotated[int, "Recorded episodes from which the decisions are drawn."] = 600
    decisions: Annotated[int, "Maximum number of decisions that are examined."] = 2000
    rollouts: Annotated[int, "Rollouts of every action of every decision."] = 16
    second_rollouts: Annotated[int, "Further rollouts where another action seems better."] = 48
    final_rollouts: Annotated[int, "Held-out rollouts that the quoted figures come from."] = 128

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
    """Settings of distillation."""

    rounds: Annotated[int, "Maximum number of rounds: play, query the guided policy, learn, check."] = 12
    patience: Annotated[int, "Rounds without a gain in return or agreement on held-out seeds after which it stops."] = 2
    episodes: Annotated[int, "Episodes per round from which the network learns."] = 256
    guided_share: Annotated[
        float,
        "Share of these episodes that the guided policy plays from the second round on (in the first round: all); "
        "the network plays the others.",
    ] = 0.25
    most_states: Annotated[int, "Maximum number of training states; the oldest are dropped first."] = 500_000
    steps: Annotated[int, "Gradient steps per round."] = 1000
    batch: Annotated[int, "States per gradient step."] = 256
    learning_rate: Annotated[float, "Adam's learning rate at the start of a round; it decays to 0."] = 5e-4
    changed_weight: Annotated[
        float, "Maximum oversampling of states in which the rules change the action, until they are half of all."
    ] = 10.0
    check_episodes: Annotated[
        int, "Held-out episodes after every round, for early stopping and for choosing the network."
    ] = 1000
    final_episodes: Annotated[int, "Held-out episodes of the quoted figures."] = 2000

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
