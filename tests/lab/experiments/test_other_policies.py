"""Other policies: the plan, the table from records by hand, the baselines' budget, and a tiny record."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.experiments.other_policies import Job, Task, make_record, random_tests_source, read_plan
from lab.experiments.others_table import is_below_known_good, is_found, load_records, others_facts, table
from legible.files import write_json
from legible.hypotheses import MeasuredEffect

LAKE = Task("FrozenLake", "FrozenLake-v1", "dqn", 0.74, {"bad": 300, "good": 600}, (0, 1))


def effect(mean: float) -> dict[str, float]:
    return {"mean": mean, "low": mean - 1, "high": mean + 1}


def record(seed: int = 0, base: float = 10.0, changed: float = 0.2, **more: Any) -> dict[str, Any]:
    found = {"rule": "+Left <- x > 1", "words": "go left when x is above 1", "effect": effect(30.0), "changed": changed}
    return {
        "task": "Cart",
        "stage": "bad",
        "seed": seed,
        "known_good": 100.0,
        "composition": {
            "base": {"mean": base, "error": 1.0},
            "guided": {"mean": base + 20.0 + 10.0 * seed},
            "gain": effect(20.0 + 10.0 * seed),
            "worst_tenth": None,
            "changed": 0.1,
            "rule_sets": 2,
            "best_reference": {"name": "random play", "mean": 5.0},
        },
        "detectable": 4.0,
        "confirmed": [found],
        "baselines": {
            "random tests": {"tried": 48, "confirmed": seed, "best": 8.0 * seed if seed else None, "steps": 9},
            "random rules": None,
        },
        "seconds": {"training": 1e6, "mining": 30.0, "evaluation": 60.0, "improvement": 30.0, "references": 0.0},
        "sources": [{"source": "searched", "steps": 700_000}],
        "steps": {"experiences": 250_000, "evaluation": 800_000, "final": 50_000},
        **more,
    }


def test_the_plan_has_seven_tasks_at_three_stages_with_five_policies() -> None:
    jobs = read_plan().jobs
    assert len({job.task.name for job in jobs}) == 7
    assert len({(job.task.name, job.stage) for job in jobs}) == 21
    assert len({job.name for job in jobs}) == len(jobs) == 105
    assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)  # every row soon has some


def test_what_is_wanting_and_what_is_found_by_hand() -> None:
    assert is_below_known_good(record(base=93.9))
    assert not is_below_known_good(
        record(base=94.1)
    )  # 4 can be detected, 2 are chance, and no more than that is missing
    assert is_below_known_good(record(base=97.0, detectable=None))
    nothing = {**record()["composition"], "gain": effect(0.5)}
    assert is_found(record(composition=nothing))
    assert not is_found(record(composition=nothing, changed=0.6))  # that is another policy
    assert not is_found(record(composition=nothing, confirmed=[]))
    assert is_found(record(confirmed=[]))  # the composition is better
    assert not is_found(record(confirmed=[], composition={**record()["composition"], "changed": 0.6}))


def test_seconds_that_were_not_all_counted_are_not_shown() -> None:
    stopped = {"training": 0.5, "mining": 0.0, "evaluation": 1.0, "improvement": 0.0, "references": 0.0}
    lines = table([record(0), record(1, seconds=stopped)]).splitlines()
    assert lines[2].endswith("| 2.0 | 1.0 |")
    assert lines[7].endswith("| – |")


def test_the_table_by_hand(snapshot) -> None:
    lines = table([record(0), record(1, confirmed=[]), record(0, stage="good", base=100.0)]).splitlines()
    bad, good = lines[2].split(" | "), lines[3].split(" | ")
    assert bad[1:8] == ["bad", "2", "10.0", "100", "4.0", "2 of 2 wanting", "1"]
    assert bad[8] == "25.0 (-38.5 to 88.5)"  # 20 and 30: 12.7 standard errors of 5 to each side
    assert bad[9:] == ["10.0 %", "5.0", "1 of 2, 4.0", "–", "2.0", "1.0 |"]
    assert good[6] == "none wanting"
    assert lines[7] == snapshot


def test_records_are_read_by_task_stage_and_seed(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('[[task]]\nname = "Lake"\nknown_good = 1\nstages = { good = 2, bad = 1 }\n', encoding="utf-8")
    for number, (stage, seed) in enumerate([("bad", 0), ("good", 1), ("good", 0)]):
        write_json(tmp_path / f"{number}.json", {"task": "Lake", "stage": stage, "seed": seed})
    found = [(one["stage"], one["seed"]) for one in load_records(tmp_path, plan)]
    assert found == [("good", 0), ("good", 1), ("bad", 0)]


def test_the_figures_of_the_text_by_hand() -> None:
    found = others_facts([record(0), record(1, confirmed=[]), record(2, base=99.0)])
    assert (found["policies"], found["wanting"], found["found"], found["tests"], found["rules"]) == (3, 2, 2, 1, 0)
    assert (found["better"], found["worse"], found["minutes"]) == (3, 0, 2.0)
    assert (found["ahead"], found["missed"]) == (2, "none")
    assert found["rows"]["Cart bad"]["gain"] == 30.0


class _Space:
    actions = range(4)


class _Study:
    """The parts of a study that the source of random tests uses."""

    space, seed = _Space(), 0


@pytest.mark.parametrize(("budget", "lots"), [(0, 0), (1, 1), (24 * 10, 1), (24 * 10 + 1, 2)])
def test_random_tests_are_drawn_until_the_steps_are_spent(budget: int, lots: int) -> None:
    source: Iterator[Any] = random_tests_source(_Study(), budget)  # type: ignore[arg-type]
    seen = []
    try:
        tests = next(source)
        while True:
            seen.append(tests)
            tests = source.send([MeasuredEffect(0.0, 1.0, 0.5, 1, 1, 10) for _ in tests])  # type: ignore[attr-defined]
    except StopIteration:
        pass
    assert len(seen) == lots
    assert len({test for tests in seen for test in tests}) == 24 * lots
    assert sum(test.enforce for tests in seen for test in tests) == 12 * lots


def test_a_tiny_record(tmp_path: Path) -> None:
    settings = {
        "episodes": 20,
        "evaluation": {"rung_changes": 8, "rungs": 1, "race_seeds": 30, "confirmation_seeds": 400},
        "search": {"budget": 2000},
        "improvement": {"episodes": 20, "final_episodes": 20},
        "references": {"episodes": 5},
    }
    job = Job(replace(LAKE, stages={"bad": 300}), "bad", 0)
    made = make_record(job, tmp_path, settings)
    assert made["training"]["algorithm"] == "DQN"
    assert made["training"]["steps"] == 300
    assert made["composition"]["base"]["episodes"] == 20
    assert {row["source"] for row in made["sources"]} >= {"searched"}
    assert made["baselines"]["random tests"]["tried"] > 0
    assert all(finding["effect"]["mean"] > 0 for finding in made["confirmed"])
    assert table([made | {"known_good": 0.7}]).count("FrozenLake") == 2
    made_again = make_record(job, tmp_path, settings)  # nothing is trained or studied again
    same = ("composition", "confirmed", "sources", "baselines", "detectable")
    assert [json.dumps(made[key]) for key in same] == [json.dumps(made_again[key]) for key in same]
