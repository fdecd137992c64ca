"""Studies of policies of public tasks at three stages of training: ``python -m lab.experiments.other_policies``.

Policies for well-known tasks are trained with `legible train`'s function, each at three stages: bad, middling and good.
Each is studied on one core, and the same environment steps are spent on random testing and random rules. Training,
study and baselines of a policy are a job in its own process; its record is a JSON file, written when all is done.
Existing records are kept, so the command can be stopped and repeated. The table is made from the records
alone: ``--table`` only writes it.

- `Task`, `Job`, `read_plan`: the tasks of ``lab/experiments/other_policies.toml``, and the policies.
- `make_record`: trains and studies one of them.
- `random_tests_source`, `random_rules_source`, `play_random`: the baselines, within a budget of environment steps.

`experiments.others_table` makes the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lab.experiments.minigrid_names import minigrid_space
from lab.experiments.others_table import OUT, PLAN, load_records, table
from lab.experiments.search_table import composition_figures
from lab.experiments.side_by_side import Seconds, chosen_seeds, job_parser, run_jobs, run_study
from lab.reproduction.baselines import CHANGES
from lab.reproduction.origin import code_version, processor_name
from lab.reproduction.random_baselines import random_rule_sets, random_tests
from legible.engines import InProcess
from legible.environments import EnvironmentSpec
from legible.evaluation import Evaluation, evaluate
from legible.explanation import detectable_effect
from legible.features import FeatureSpace
from legible.files import read_toml, write_text
from legible.hypotheses import Hypotheses
from legible.policies import load_policy
from legible.rules import RuleSet
from legible.rules.wording import describe_rule_set
from legible.settings import SettingsError, StudySettings
from legible.study import Study, settings_for
from legible.study.sources import source_rows
from legible.training.presets import Algorithm

LOT = 24
"""Random tests, or random rule sets, that are raced together."""


@dataclass(frozen=True)
class Task:
    """An environment, how policies for it are trained, and the return of a good one.

    Parameters
    ----------
    name, environment, wrappers
        Its name, its id, and its wrappers.
    algorithm
        By which policies are trained; hyperparameters are the preset's.
    known_good
        The return that a good policy is known to have.
    stages
        Training steps by the name of the stage.
    seeds
        Of the trainings.
    settings
        Of the studies, in addition to those of all tasks.
    """

    name: str
    environment: str
    algorithm: Algorithm
    known_good: float
    stages: dict[str, int]
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    wrappers: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> EnvironmentSpec:
        """The specification of the environment."""
        return EnvironmentSpec(self.environment, {}, self.wrappers)

    @property
    def names(self) -> FeatureSpace | None:
        """Names of features and actions where neither the environment nor legible has any."""
        return minigrid_space() if self.environment.startswith("MiniGrid") else None


@dataclass(frozen=True)
class Job:
    """One policy: its task, stage and seed."""

    task: Task
    stage: str
    seed: int

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"{self.task.name.lower()}-{self.stage}-{self.seed}"


@dataclass(frozen=True)
class Plan:
    """All policies, and the settings of the studies that are not the default ones."""

    jobs: list[Job]
    settings: dict[str, Any] = field(default_factory=dict)


def read_plan(path: Path = PLAN) -> Plan:
    """Read a plan; the first policy of every task and stage comes first, so that all rows soon have some.

    Of these, the longest trainings come first, so that no worker waits for them at the end.
    """
    data = read_toml(path, SettingsError)
    tasks = [
        Task(**{**task, "seeds": tuple(task.get("seeds", Task.seeds)), "wrappers": tuple(task.get("wrappers", ()))})
        for task in data["task"]
    ]
    jobs = [Job(task, stage, seed) for task in tasks for stage in task.stages for seed in task.seeds]
    settings = data.get("settings", {})
    for task in tasks:
        StudySettings().updated(settings, str(path)).updated(task.settings, str(path))
    return Plan(sorted(jobs, key=lambda job: (job.seed, -job.task.stages[job.stage])), settings)


# --- One policy ------------------------------------------------------------------------------------------------------


def make_record(job: Job, folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Train a policy, study it, spend the same steps on the baselines, and return what was found."""
    seconds = Seconds(folder / "seconds.json")
    with seconds.of("training"):
        policy = train_policy(job, folder)
    chosen = settings_for(job.task.spec).updated(settings).updated(job.task.settings)
    study = Study(
        folder / "study", job.task.spec, str(policy), names=job.task.names, settings=chosen, engine=InProcess()
    )
    evaluation, improvement, references = run_study(study, seconds)
    sources = source_rows(study)
    budget = sum(row.steps for row in sources)
    with seconds.of("random tests"):
        tests = play_random(study, "random tests", random_tests_source(study, budget))
    with seconds.of("random rules"):
        rules = play_random(study, "random rules", random_rules_source(study, budget)) if study.rule_sets else None
    training = load_policy(policy).metadata
    return {
        "task": job.task.name,
        "stage": job.stage,
        "seed": job.seed,
        "environment": job.task.environment,
        "wrappers": list(job.task.wrappers),
        "training": {name: training.get(name) for name in ("algorithm", "steps", "hyperparameters")},
        "composition": composition_figures(improvement, references),
        "detectable": detectable_effect(evaluation),
        "confirmed": [
            {
                "rule": verdict.rule_set.short_text(study.space),
                "words": describe_rule_set(verdict.rule_set, study.space, "advice"),
                "found_by": verdict.found_by,
                "effect": asdict(verdict.confirmation.effect) if verdict.confirmation else None,
                "changed": verdict.sample.changed,
            }
            for verdict in evaluation.confirmed
        ],
        "sources": [row.to_dict() for row in sources],
        "references": references.to_rows(),
        "baselines": {"random tests": _counts(tests), "random rules": _counts(rules)},
        "steps": {
            "experiences": len(study.experiences),
            "evaluation": evaluation.unguided_steps + budget,
            "final": sum(int(block.lengths.sum()) for block in improvement.final_blocks.results),
        },
        "seconds": seconds.known,
        "settings": chosen.to_dict(),
        "versions": study.versions,
        "code": code_version(),
        "processor": processor_name(),
    }


def train_policy(job: Job, folder: Path) -> Path:
    """Train the policy of a job, unless it is there; returns its file."""
    from legible.training import train  # noqa: PLC0415 (it needs Stable-Baselines3)

    file = folder / "policy.safetensors"
    if not file.exists():
        task = job.task
        train(task.spec, task.algorithm, task.stages[job.stage], job.seed, out=folder / "policy", n_episodes=50)
    return file


# --- Baselines -------------------------------------------------------------------------------------------------------


def random_tests_source(study: Study, budget: int) -> Hypotheses:
    """Draw the paper's random tests, which block or enforce actions, within a budget of steps."""
    actions = len(study.space.actions)

    def draw(lot: int) -> list[Any]:
        both = [random_tests(actions, LOT // 2, enforce=e, seed=_lot_seed(study, lot), changes=CHANGES) for e in (0, 1)]
        return [test for tests in both for test in tests]

    return _within_budget(draw, budget)


def random_rules_source(study: Study, budget: int) -> Hypotheses:
    """Draw the paper's random rules, rule sets that look like the mined ones, within a budget of steps."""
    mined, actions = [found.rule for found in study.mining.rules], len(study.space.actions)
    return _within_budget(
        lambda lot: random_rule_sets(mined, study.rule_sets, actions, LOT, seed=_lot_seed(study, lot)), budget
    )


def _lot_seed(study: Study, lot: int) -> int:
    return 1000 * study.seed + lot


def _within_budget(draw: Callable[[int], Sequence[RuleSet]], budget: int) -> Hypotheses:
    spent, lot = 0, 0
    while spent < budget:
        effects = yield draw(lot)
        played = sum(effect.steps for effect in effects)
        if not played:  # nothing can be changed any more
            return
        spent, lot = spent + played, lot + 1


def play_random(study: Study, name: str, source: Hypotheses) -> Evaluation:
    """Test what a source draws, as the study's own rule sets were tested."""
    return evaluate(
        study.setup(),
        seed=study.seed,
        settings=study.settings.evaluation,
        sources={name: source},
        run=study.runner(name, keep=False),
    )


def _counts(found: Evaluation | None) -> dict[str, Any] | None:
    """Return how many were tried and confirmed, the largest confirmed effect, and the steps."""
    if found is None:
        return None
    best = max((v.confirmation.effect.mean for v in found.confirmed if v.confirmation), default=None)
    return {"tried": len(found.verdicts), "confirmed": len(found.confirmed), "best": best, "steps": found.steps}


# --- Running ---------------------------------------------------------------------------------------------------------


def main() -> None:
    """Run the missing jobs, then write the table."""
    asked = job_parser(__doc__.splitlines()[0], PLAN, OUT, Path("studies/others")).parse_args()
    plan, seeds = read_plan(asked.plan), chosen_seeds(asked.seeds)
    jobs = [job for job in plan.jobs if asked.only.lower() in job.name and (seeds is None or job.seed in seeds)]
    asked.out.mkdir(parents=True, exist_ok=True)
    if not asked.table:
        missing = [job for job in jobs if not (asked.out / f"{job.name}.json").exists()]
        run_jobs(make_record, missing, asked, plan.settings)
    text = table(load_records(asked.out, asked.plan))
    write_text(asked.out / "table.md", text)
    print(text)


if __name__ == "__main__":
    main()
