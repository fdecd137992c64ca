"""Rounds of learning: play, ask the teacher, learn, evaluate.

States come from the network's own episodes and from some of the guided policy's (DAgger, Ross et al. 2011): small
differences lead a network into states that its teacher never sees, and it has to know what to do there, too.

- `Player`: plays episodes of the guided policy and of networks.
- `StudentLearner`: the network, its data and its optimiser; `draw_weights`: the weights of states;
  `learn_in_rounds`: learning until the network stops improving.
- `RoundCheck`: the evaluation after a round; `has_settled`: the stopping rule; `best_round`: the round that is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from legible.distillation.checkpoint import DistillationCheckpoint, SavedRound
from legible.distillation.losses import actions_loss, log_probabilities_loss, margin_of, values_loss
from legible.distillation.student import Student
from legible.distillation.teacher import Labels, Teacher, best_choices
from legible.environments import EnvironmentSpec
from legible.evaluation import Runner
from legible.evaluation.recorded import RECORD_EPISODES, ROWS, RecordedEpisodes
from legible.evaluation.units import UNGUIDED, Setup, Unit, UnitResult, cut_into_units, usual_rows
from legible.guidance import GuidedPolicy
from legible.play import Observations, adapt_policy, one_thread, stage_seeds
from legible.policies import Policy
from legible.settings import DistillationSettings, PlaySettings

# Share of the states with different actions by which agreement must rise for a further round.
_MIN_RISE = 0.02
Progress = Callable[[str, int, int], None]
"""Called as ``progress(stage, done, of)``."""


@dataclass(frozen=True)
class RoundCheck:
    """The evaluation of the network after a round, on held-out seeds."""

    number: int  # of the round, from 1
    mean: float  # mean return
    error: float  # its standard error
    agreement: float  # share of states in which it takes the action of the guided policy
    steps: int  # environment steps so far

    @classmethod
    def of(cls, number: int, saved: SavedRound) -> RoundCheck:
        """Return the evaluation of a saved round."""
        played = saved.returns[np.isfinite(saved.returns)]
        error = float(played.std(ddof=1) / np.sqrt(len(played))) if len(played) > 1 else float("nan")
        return cls(number, float(played.mean()), error, saved.agreement, saved.steps)


@dataclass(frozen=True)
class Player:
    """Player of episodes of the guided policy and of networks without rules."""

    guided: GuidedPolicy
    environment: EnvironmentSpec
    play: PlaySettings
    run: Runner  # runs units

    def setup(self, policy: Policy | None = None) -> Setup:
        """Return the set-up of units: a policy without rules, or the guided policy (None) as treatment 0."""
        rules = () if policy is not None else (self.guided.rules,)
        recorded_policy = self.guided.policy if policy is None else policy
        player = adapt_policy(recorded_policy, self.environment, self.guided.space)
        return Setup(player, self.environment, rules, self.play, usual_rows(self.play))

    def returns(
        self, policy: Policy | None, seeds: Sequence[int], on_episodes: Callable[[int], None] | None = None
    ) -> UnitResult:
        """Play a policy without rules, or the guided one (None), and return its results."""
        units = self._units(policy, seeds, self.play.unit_episodes)
        result: UnitResult = self.run(self.setup(policy), units, on_episodes=on_episodes)
        return result

    def record(self, policy: Policy | None, seeds: Sequence[int]) -> RecordedEpisodes:
        """Play a policy without rules, or the guided one (None), and record its episodes."""
        units = self._units(policy, seeds, min(RECORD_EPISODES, self.play.unit_episodes))
        recorded: RecordedEpisodes = self.run(self.setup(policy), units, kept=ROWS)
        return recorded

    @staticmethod
    def _units(policy: Policy | None, seeds: Sequence[int], size: int) -> list[Unit]:
        return cut_into_units([UNGUIDED if policy is not None else 0] * len(seeds), seeds, size)


class StudentLearner:
    """A network that learns the actions of a guided policy, the teacher.

    The seed is that of the batches; `greedy` says whether the network takes the most likely action.
    """

    def __init__(self, teacher: Teacher, settings: DistillationSettings, seed: int, *, greedy: bool) -> None:
        self.teacher, self._settings, self._seed, self._greedy = teacher, settings, seed, greedy
        self.student = Student(teacher.network)
        self._optimiser = torch.optim.Adam(self.student.parameters, lr=settings.learning_rate, foreach=False)
        self._observations: Observations | None = None
        self._labels: Labels | None = None
        self._margin = 1.0

    def see(self, observations: Observations) -> None:
        """Label states with the teacher's actions and add them to the data; the oldest are dropped if necessary."""
        labels = self.teacher.label(observations)
        rows = labels.clear
        observations, labels = observations[rows], labels.rows(rows)
        if self._observations is None or self._labels is None:
            self._margin = margin_of(torch.from_numpy(labels.targets)) if self.student.kind == "values" else 1.0
        else:
            observations = np.concatenate([self._observations, observations])
            labels = Labels.concatenate([self._labels, labels])
        kept = slice(-self._settings.most_states, None)
        self._observations, self._labels = observations[kept], labels.rows(kept)

    def learn(self, number: int, on_step: Callable[[int], None]) -> None:
        """Take the gradient steps of a round; `on_step` is called with the number of steps in all rounds.

        The learning rate falls to 0: otherwise the last batches would decide between nearly equal choices.
        """
        assert self._labels is not None
        settings = self._settings
        rng = np.random.default_rng([self._seed % 2**64, number])
        weights = draw_weights(self._labels.changed, settings.changed_weight).cumsum()
        with one_thread():
            for step in range(settings.steps):
                self.learning_rate = settings.learning_rate * (1.0 - step / settings.steps)
                rows = np.searchsorted(weights, rng.random(settings.batch) * weights[-1], side="right")
                loss = self._loss(np.minimum(rows, len(weights) - 1))
                self._optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]  # PyTorch's
                self._optimiser.step()
                on_step((number - 1) * settings.steps + step + 1)

    @property
    def learning_rate(self) -> float:
        """The current learning rate."""
        return float(self._optimiser.param_groups[0]["lr"])

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self._optimiser.param_groups[0]["lr"] = value

    def _loss(self, rows: NDArray[np.intp]) -> torch.Tensor:
        assert self._observations is not None
        assert self._labels is not None
        student = self.student
        outputs = student.outputs(student.inputs(self.teacher.shown(self._observations[rows])))
        targets, choices = (torch.from_numpy(column[rows]) for column in self._labels[:2])
        if student.kind == "values":
            changed = torch.from_numpy(self._labels.changed[rows])
            return values_loss(outputs, targets, choices[:, 0], changed, self._margin)
        if student.kind == "log-probabilities":
            return log_probabilities_loss(outputs, targets, choices, greedy=self._greedy)
        return actions_loss(outputs, targets, torch.from_numpy(student.spread))

    def saved(self, returns: NDArray[np.float64], agreement: float, steps: int) -> SavedRound:
        """Return the state after a round, with the results of its evaluation."""
        states = [self._optimiser.state[parameter] for parameter in self.student.parameters]
        moments = [[state[name].numpy().copy() for state in states] for name in ("exp_avg", "exp_avg_sq")]
        return SavedRound(self.student.weights(), (moments[0], moments[1]), returns, agreement, steps)

    def restore(self, saved: SavedRound, number: int) -> None:
        """Restore the state after a round."""
        self.student.load(saved.weights)
        for i, parameter in enumerate(self.student.parameters):
            self._optimiser.state[parameter] = {
                "step": torch.tensor(float(number * self._settings.steps)),
                "exp_avg": torch.from_numpy(saved.moments[0][i].copy()),
                "exp_avg_sq": torch.from_numpy(saved.moments[1][i].copy()),
            }


def draw_weights(changed: NDArray[np.bool_], most: float) -> NDArray[np.float64]:
    """Return the weights of states in batches: states in which rules change the action are half of a batch.

    They are never drawn less often than the others, and at most `most` times as often.

    >>> draw_weights(np.array([True, False, False, False]), 10.0).tolist()
    [3.0, 1.0, 1.0, 1.0]
    """
    share = float(changed.mean())
    return np.where(changed, max(1.0, min(most, (1.0 - share) / share)) if share else 1.0, 1.0)


def learn_in_rounds(
    learner: StudentLearner,
    player: Player,
    checkpoint: DistillationCheckpoint,
    settings: DistillationSettings,
    seed: int,
    *,
    progress: Progress,
    on_round: Callable[[RoundCheck], None],
) -> list[SavedRound]:
    """Return snapshots of a network, one per round of learning; rounds end when it stops improving.

    In each round (DAgger) the network and the teacher play, the guided policy labels the states, and the network learns
    the labels of all rounds so far. Then it is evaluated on held-out seeds.

    - `learner`: the network that learns, with its optimiser, its data and its teacher, the guided policy.
    - `player`: plays and records episodes of a policy.
    - `checkpoint`: finished rounds of a distillation that was stopped. They are not learnt again, but their episodes
      are played again, because later rounds also learn from their observations.
    - `settings`, `seed`: numbers of rounds, episodes and gradient steps; seed of the distillation.
    - `progress`: called with the name of the work, the gradient steps taken, and their total.
    - `on_round`: called with the evaluation of each round.
    """
    rounds: list[SavedRound] = []
    saved_rounds = checkpoint.rounds()
    total_steps = settings.rounds * settings.steps
    held_out = stage_seeds(seed, "distillation check", first=0, count=settings.check_episodes)
    while len(rounds) < settings.rounds and not has_settled(rounds, settings.patience):
        round_number = len(rounds) + 1
        env_steps = _collect_episodes(learner, player, settings, seed, round_number)
        if round_number <= len(saved_rounds):
            snapshot = saved_rounds[round_number - 1]
            learner.restore(snapshot, round_number)
        else:
            learner.learn(round_number, lambda step: progress("distillation", step, total_steps))
            recorded = player.record(learner.student.policy(), held_out)
            # Environment steps are counted over all rounds.
            env_steps += int(recorded.result.lengths.sum()) + (rounds[-1].steps if rounds else 0)
            snapshot = learner.saved(recorded.result.returns, agreement(learner.teacher, recorded), env_steps)
            checkpoint.save_round(round_number, snapshot)
        rounds.append(snapshot)
        on_round(RoundCheck.of(round_number, snapshot))
    # If learning ended early, the progress is complete all the same.
    progress("distillation", len(rounds) * settings.steps, len(rounds) * settings.steps)
    return rounds


def _collect_episodes(
    learner: StudentLearner, player: Player, settings: DistillationSettings, seed: int, number: int
) -> int:
    """Play the episodes of a round, add their states to the learner's data, and return the number of steps."""
    seeds = stage_seeds(seed, "distillation", (number - 1) * settings.episodes, settings.episodes)
    network_episodes = 0 if number == 1 else round((1.0 - settings.guided_share) * settings.episodes)
    parts: list[tuple[Policy | None, list[int]]] = [
        (learner.student.policy(), seeds[:network_episodes]),
        (None, seeds[network_episodes:]),
    ]
    steps = 0
    for policy, some in parts:
        if some:
            recorded = player.record(policy, some)
            learner.see(recorded.observations)
            steps += int(recorded.result.lengths.sum())
    return steps


def agreement(teacher: Teacher, recorded: RecordedEpisodes) -> float:
    """Return the share of recorded states in which the policy takes the action of the guided policy."""
    labels = teacher.label(recorded.observations)
    same = (best_choices(recorded.scores, teacher.starts) == labels.choices).all(axis=1)
    return float(same[labels.clear].mean()) if labels.clear.any() else 1.0


def has_settled(rounds: Sequence[SavedRound], patience: int) -> bool:
    """Return whether neither mean return nor agreement rose in the last `patience` rounds."""
    best, agreed, idle = -np.inf, 0.0, 0
    for saved in rounds:
        mean = float(np.nanmean(saved.returns))
        agrees_more = saved.agreement > agreed + _MIN_RISE * (1.0 - agreed)
        idle = 0 if mean > best or agrees_more else idle + 1
        best, agreed = max(best, mean), saved.agreement if agrees_more else agreed
    return idle >= patience


def best_round(rounds: Sequence[SavedRound]) -> int:
    """Return the index of the round to keep.

    Among the rounds whose mean return on held-out seeds is within a standard error of the difference to the best one,
    this is the one that agrees most with the guided policy.
    """
    returns = np.stack([saved.returns for saved in rounds])
    returns = returns[:, np.isfinite(returns).all(axis=0)]
    best = returns[int(returns.mean(axis=1).argmax())]
    missing = best - returns
    errors = missing.std(axis=1, ddof=1) / np.sqrt(returns.shape[1]) if returns.shape[1] > 1 else np.zeros(len(rounds))
    good = missing.mean(axis=1) <= errors
    return max(np.flatnonzero(good).tolist(), key=lambda place: (rounds[place].agreement, -place))
