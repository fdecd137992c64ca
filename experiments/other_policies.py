"""What studies find in policies that are not ours by design: ``python -m experiments.other_policies``.

Policies for well-known tasks are trained with `legible train`'s function, each at three stages: bad, middling and good.
Each is studied on one core, and the same environment steps are spent on random testing and random rules. Training,
study and baselines of a policy are a job in a process of its own; its record is a JSON file, written when all is done.
What is there is not made again, so that the command can be stopped and given again. The table is made from the records
alone: ``--table`` only writes it.

- `Task`, `Job`, `read_plan`: the tasks of ``experiments/other_policies.toml``, and the policies.
- `make_record`: trains and studies one of them.
- `random_tests_source`, `random_rules_source`, `play_random`: the baselines, within a budget of environment steps.
- `table`: the records as Markdown.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.minigrid_names import minigrid_space
from experiments.search_table import composition_figures, format_figure, interval_over_policies
from experiments.side_by_side import run_side_by_side
from legible.engines import InProcess
from legible.environments import EnvironmentSpec
from legible.evaluation import Evaluation, Verdict, evaluate
from legible.evaluation.baselines import random_rule_sets, random_tests
from legible.explanation import detectable_effect
from legible.features import FeatureSpace
from legible.files import read_toml, write_json, write_text
from legible.hypotheses import Hypotheses
from legible.policies import load_policy
from legible.reproduction.origin import code_version, processor_name
from legible.rules import RuleSet
from legible.rules.wording import describe_rule
from legible.settings import SettingsError, StudySettings
from legible.study import Study, settings_for
from legible.study.sources import source_rows

PLAN = Path(__file__).with_name("other_policies.toml")
OUT = Path(__file__).with_name("results") / "others"
MOST_CHANGED = 0.5
"""A rule that changes more of the actions than this is another policy rather than a finding about this one."""
LOT = 24
"""Random tests, or random rule sets, that are raced together."""


@dataclass(frozen=True)
class Task:
    """An environment, how policies for it are trained, and the return of a good one.

    Parameters
    ----------
    name, environment, wrappers
        What it is called, its id, and what is put around it.
    algorithm
        By which policies are trained; hyperparameters are the preset's.
    known_good
        The return that a good policy is known to have.
    stages
        Training steps by the name of the stage.
    seeds
        Of the trainings.
    """

    name: str
    environment: str
    algorithm: str
    known_good: float
    stages: dict[str, int]
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    wrappers: tuple[str, ...] = ()

    @property
    def spec(self) -> EnvironmentSpec:
        """What makes the environment."""
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

    Of these, those that are trained for longest come first: nobody waits for them at the end.
    """
    data = read_toml(path, SettingsError)
    tasks = [
        Task(**{**task, "seeds": tuple(task.get("seeds", Task.seeds)), "wrappers": tuple(task.get("wrappers", ()))})
        for task in data["task"]
    ]
    jobs = [Job(task, stage, seed) for task in tasks for stage in task.stages for seed in task.seeds]
    settings = data.get("settings", {})
    StudySettings().updated(settings, str(path))
    return Plan(sorted(jobs, key=lambda job: (job.seed, -job.task.stages[job.stage])), settings)


# --- One policy ------------------------------------------------------------------------------------------------------


def make_record(job: Job, folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Train a policy, study it, spend the same steps on the baselines, and return what was found."""
    started, seconds = time.monotonic(), {}

    def lap(name: str) -> None:
        seconds[name] = time.monotonic() - started - sum(seconds.values())

    policy = train_policy(job, folder)
    lap("training")
    chosen = settings_for(job.task.spec).updated(settings)
    study = Study(
        folder / "study", job.task.spec, str(policy), names=job.task.names, settings=chosen, engine=InProcess()
    )
    study.mine()
    lap("mining")
    evaluation = study.evaluate()
    lap("evaluation")
    improvement = study.improve()
    lap("improvement")
    references = study.play_references()
    lap("references")
    sources = source_rows(study)
    budget = sum(row.steps for row in sources)
    tests = play_random(study, "random tests", random_tests_source(study, budget))
    lap("random tests")
    rules = play_random(study, "random rules", random_rules_source(study, budget)) if study.rule_sets else None
    lap("random rules")
    training = load_policy(policy).metadata
    return {
        "task": job.task.name,
        "stage": job.stage,
        "seed": job.seed,
        "environment": job.task.environment,
        "wrappers": list(job.task.wrappers),
        "training": {name: training.get(name) for name in ("algorithm", "steps", "hyperparameters")},
        "known_good": job.task.known_good,
        "composition": composition_figures(improvement, references),
        "detectable": detectable_effect(evaluation),
        "confirmed": [_finding(verdict, study) for verdict in evaluation.confirmed],
        "sources": [row.to_dict() for row in sources],
        "references": references.to_rows(),
        "baselines": {"random tests": _counts(tests), "random rules": _counts(rules)},
        "steps": {
            "experiences": len(study.experiences),
            "evaluation": evaluation.steps + next((row.steps for row in sources if row.source == "searched"), 0),
            "final": sum(int(block.lengths.sum()) for block in improvement.final_blocks.results),
        },
        "seconds": {name: round(taken, 1) for name, taken in seconds.items()},
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
        train(task.spec, task.algorithm, task.stages[job.stage], job.seed, out=folder / "policy", n_episodes=50)  # type: ignore[arg-type]
    return file


def _finding(verdict: Verdict, study: Study) -> dict[str, Any]:
    rule = verdict.rule_set.source or verdict.rule_set.rules[0]
    assert verdict.confirmation is not None
    return {
        "rule": rule.text(study.space),
        "words": describe_rule(rule, study.space, "advice"),
        "found_by": verdict.found_by,
        "effect": asdict(verdict.confirmation.effect),
        "changed": verdict.sample.changed,
    }


# --- Baselines -------------------------------------------------------------------------------------------------------


def random_tests_source(study: Study, budget: int) -> Hypotheses:
    """The paper's random testing, as many tests that block or enforce actions as a budget of steps is enough for."""
    actions, changes = len(study.space.actions), study.settings.baselines.changes

    def draw(lot: int) -> list[Any]:
        both = [random_tests(actions, LOT // 2, enforce=e, seed=_lot_seed(study, lot), changes=changes) for e in (0, 1)]
        return [test for tests in both for test in tests]

    return _within_budget(draw, budget)


def random_rules_source(study: Study, budget: int) -> Hypotheses:
    """The paper's random rules, as many rule sets that look like the mined ones as a budget of steps is enough for."""
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
    """How many were tried and confirmed, the largest confirmed effect, and the steps."""
    if found is None:
        return None
    best = max((v.confirmation.effect.mean for v in found.confirmed if v.confirmation), default=None)
    return {"tried": len(found.verdicts), "confirmed": len(found.confirmed), "best": best, "steps": found.steps}


# --- The table -------------------------------------------------------------------------------------------------------


def is_found(record: Mapping[str, Any]) -> bool:
    """Whether something was confirmed that changes at most half of the actions."""
    return any(finding["changed"] <= MOST_CHANGED for finding in record["confirmed"])


def is_wanting(record: Mapping[str, Any]) -> bool:
    """Whether a policy is below the known good return by more than the study could detect."""
    missing = record["known_good"] - record["composition"]["base"]["mean"]
    return bool(missing > (record["detectable"] or 0.0))


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the records as Markdown: a line for each task and stage, then one for each policy."""
    rows: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record in records:
        rows.setdefault((record["task"], record["stage"]), []).append(record)
    lines = [
        "| task | stage | policies | base | known good | detectable | found in | rule sets confirmed "
        "| gain, mean over policies (95 % CI) | actions changed | best reference | random tests | random rules "
        "| minutes | million steps |",
        "|---" * 15 + "|",
        *(_row_line(task, stage, found) for (task, stage), found in rows.items()),
        "",
        "| policy | base | gain (95 % CI) | worst tenth | changed | rule sets | best finding | its effect (95 % CI) "
        "| random tests | random rules | minutes |",
        "|---" * 11 + "|",
        *(_policy_line(record) for record in records),
    ]
    return "\n".join(lines) + "\n"


def _row_line(task: str, stage: str, records: Sequence[Mapping[str, Any]]) -> str:
    found = [record["composition"] for record in records]
    gains = np.array([one["gain"]["mean"] for one in found])
    wanting = [record for record in records if is_wanting(record)]
    detectable = [record["detectable"] for record in records if record["detectable"] is not None]
    references = [one["best_reference"]["mean"] for one in found if one["best_reference"]]
    cells = (
        task,
        stage,
        len(records),
        format_figure(np.mean([one["base"]["mean"] for one in found])),
        format_figure(records[0]["known_good"]),
        format_figure(np.mean(detectable)) if detectable else "–",
        f"{sum(map(is_found, wanting))} of {len(wanting)} wanting" if wanting else "none wanting",
        sum(len(record["confirmed"]) for record in records),
        f"{format_figure(gains.mean())} {interval_over_policies(gains)}",
        f"{100 * np.mean([one['changed'] for one in found]):.1f} %",
        format_figure(np.mean(references)) if references else "–",
        _found_by_chance(records, "random tests"),
        _found_by_chance(records, "random rules"),
        f"{np.mean([_minutes(record) for record in records]):.1f}",
        f"{np.mean([_steps(record) for record in records]) / 1e6:.1f}",
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def _found_by_chance(records: Sequence[Mapping[str, Any]], kind: str) -> str:
    """In how many of the policies a baseline confirmed something."""
    played = [record["baselines"][kind] for record in records if record["baselines"][kind]]
    return f"{sum(found['confirmed'] > 0 for found in played)} of {len(played)}"


def _minutes(record: Mapping[str, Any]) -> float:
    """Of the study alone."""
    parts = ("mining", "evaluation", "improvement", "references")
    return sum(record["seconds"][part] for part in parts) / 60


def _steps(record: Mapping[str, Any]) -> float:
    return float(sum(record["steps"].values()))


def _policy_line(record: Mapping[str, Any]) -> str:
    found, best = record["composition"], next(iter(record["confirmed"]), None)
    worst = found["worst_tenth"]
    cells = (
        f"{record['task']} {record['stage']} {record['seed']}",
        format_figure(found["base"]["mean"]),
        _with_interval(found["gain"]),
        _with_interval(worst) if worst else "–",
        f"{100 * found['changed']:.1f} %",
        found["rule_sets"],
        best["words"] if best else "–",
        _with_interval(best["effect"]) if best else "–",
        *(_count_cell(record["baselines"][kind]) for kind in ("random tests", "random rules")),
        f"{_minutes(record):.1f}",
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def _with_interval(effect: Mapping[str, float]) -> str:
    return f"{format_figure(effect['mean'])} ({format_figure(effect['low'])} to {format_figure(effect['high'])})"


def _count_cell(found: Mapping[str, Any] | None) -> str:
    return "–" if found is None else f"{found['confirmed']} of {found['tried']}"


# --- Running ---------------------------------------------------------------------------------------------------------


def _work(job: Job, out: Path, studies: Path, settings: Mapping[str, Any]) -> None:
    """Make the record of one policy in this process."""
    torch.set_num_threads(1)
    write_json(out / f"{job.name}.json", make_record(job, studies / job.name, settings))


def load_records(out: Path, plan: Plan) -> list[dict[str, Any]]:
    """Read the records that are there, by task, stage and seed."""
    tasks = list(dict.fromkeys(job.task.name for job in plan.jobs))
    jobs = sorted(
        plan.jobs, key=lambda job: (tasks.index(job.task.name), list(job.task.stages).index(job.stage), job.seed)
    )
    paths = [out / f"{job.name}.json" for job in jobs]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]


def main() -> None:
    """Run what is missing, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plan", type=Path, default=PLAN)
    parser.add_argument("--out", type=Path, default=OUT, help="where records and the table go")
    parser.add_argument("--studies", type=Path, default=Path("studies/others"), help="where policies and studies lie")
    parser.add_argument("--workers", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--only", default="", help="only policies whose name holds this, such as 'lunarlander-bad'")
    parser.add_argument("--seeds", default="", help="only policies of these seeds, such as '0,1'")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many; go on another time")
    parser.add_argument("--table", action="store_true", help="only write the table, from the records that are there")
    asked = parser.parse_args()
    plan = read_plan(asked.plan)
    seeds = {int(seed) for seed in asked.seeds.split(",")} if asked.seeds else None
    jobs = [job for job in plan.jobs if asked.only.lower() in job.name and (seeds is None or job.seed in seeds)]
    asked.out.mkdir(parents=True, exist_ok=True)
    missing = {
        job.name: (job, asked.out, asked.studies, plan.settings)
        for job in jobs
        if not (asked.out / f"{job.name}.json").exists()
    }
    if not asked.table:
        run_side_by_side(_work, missing, workers=asked.workers, minutes=asked.minutes)
    text = table(load_records(asked.out, plan))
    write_text(asked.out / "table.md", text)
    print(text)


if __name__ == "__main__":
    main()
