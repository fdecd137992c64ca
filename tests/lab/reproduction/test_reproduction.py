"""The paper's tables: plans from TOML, cells from records, and a whole small reproduction."""

import csv
import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from lab.reproduction import (
    StudiesPlan,
    TablePlan,
    compare_records,
    expected_seconds,
    find_tables,
    jobs_of,
    load_table_plans,
    missing_jobs,
    reproduce,
    table_from_records,
)
from lab.reproduction.command import reproduce as reproduce_command
from lab.reproduction.records import load_record, save_record
from lab.reproduction.tables import NOT_RUN, Cell, build_table
from legible.engines import InProcess
from legible.environments import UntrustedCodeError
from legible.errors import LegibleError

EXPERIMENTS = Path(__file__).parents[3] / "lab" / "experiments"
STUDIES = """
seeds = [0, 1]
preset = "paper"
[settings.evaluation]
episodes = 100
[modes.greedy]
[modes."epsilon 0.05"]
play = { epsilon = 0.05 }
baselines = false
[[row]]
name = "small"
environment = "legible/PacmanSmall-v0"
policy = "zoo:PacmanSmall/dqn/{seed}"
extended = "zoo:PacmanSmall/dqn/{seed}-extended"
known_rule = "-North <- not food.north & not open.north"
"""
WEAKNESSES = """
title = "Detected weaknesses"
kind = "weaknesses"
studies = { DQN = "studies.toml" }
[paper]
small = { RT = 0.0, RR = 0.01, MT = 0.13, evaluations = 105.4 }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "studies.toml").write_text(STUDIES)
    (tmp_path / "table1.toml").write_text(WEAKNESSES)
    improvement = WEAKNESSES.replace("weaknesses", "improvement").split("[paper]")[0]
    (tmp_path / "table3.toml").write_text(improvement + "[paper]\nsmall = { base = 1023.6, rule-guided = 1268.9 }\n")
    return tmp_path


def verdict(p: float, q_fresh: float | None = None) -> dict[str, float]:
    return {"p": p} if q_fresh is None else {"p": p, "q_fresh": q_fresh}


def record(seed: int, mt: list[dict[str, float]], **more: object) -> dict[str, object]:
    sample = {"mean": 10.0 + seed, "error": 1.0 + seed}
    return {
        "row": "small",
        "mode": "greedy",
        "policy_seed": seed,
        "base": sample,
        "MT": mt,
        "RT": {"block": [verdict(0.01), verdict(0.9)], "enforce": [verdict(0.9), verdict(0.8)]},
        "RR": [],
        "improvement": {
            "rule_sets": ["a"] * seed,
            "chosen": sample,
            "base": sample,
            "guided": sample,
            "effect": sample,
        },
        "extended": None,
        "groups": {},
        "references": [
            {"name": "random play", "mean": 3.0, "error": 1.0, "seeds": "final"},
            {"name": "always North", "mean": 8.0, "error": 1.0, "seeds": "final"},
            {"name": "always South", "mean": 9.0, "error": 1.0, "seeds": "references"},
        ],
        **more,
    }


def test_a_plan_merges_preset_settings_and_modes(folder: Path):
    plan = StudiesPlan.load(folder / "studies.toml")
    greedy, exploring = plan.modes["greedy"].settings, plan.modes["epsilon 0.05"].settings
    assert [mode.baselines for mode in plan.modes.values()] == [True, False]
    assert (greedy.episodes, greedy.evaluation.episodes, greedy.play.epsilon) == (600, 100, 0.0)
    assert (exploring.evaluation.episodes, exploring.play.epsilon) == (100, 0.05)
    assert greedy.improvement.episodes == 1000, "the paper's preset where nothing else is said"
    names = [f"small-{seed}-{mode}" for mode in ("greedy", "epsilon-0.05") for seed in (0, 1)]
    assert [job.name for job in plan.jobs()] == names
    assert plan.jobs()[1].extended == "zoo:PacmanSmall/dqn/1-extended"


def test_scaling_takes_fewer_episodes_tests_and_policies(folder: Path):
    plan = StudiesPlan.load(folder / "studies.toml").scaled(0.1)
    mode = plan.modes["greedy"]
    settings = mode.settings
    assert plan.seeds == (0,)
    assert (settings.episodes, settings.evaluation.episodes, mode.random_tests) == (60, 10, 10)
    whole = StudiesPlan.load(folder / "studies.toml").modes["greedy"].settings
    assert settings.play.unit_episodes == whole.play.unit_episodes
    with pytest.raises(LegibleError, match="scale must be above 0"):
        plan.scaled(0.0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("preset", "preset_", "no entry 'preset_'"),
        ('"paper"', '"papr"', "no preset 'papr'"),
        ("episodes = 100", "episode = 100", "no setting 'episode'"),
        ("policy =", "polcy =", "no entry 'polcy'"),
        ("[[row]]", "[[row", "is not valid TOML"),
    ],
)
def test_a_broken_studies_file_is_explained(folder: Path, old: str, new: str, message: str):
    (folder / "studies.toml").write_text(STUDIES.replace(old, new))
    with pytest.raises(LegibleError, match=message):
        StudiesPlan.load(folder / "studies.toml")


def test_tables_that_share_studies_share_the_jobs(folder: Path):
    jobs = jobs_of(load_table_plans(["all"], folder))
    assert {name: len(found) for name, found in jobs.items()} == {"studies": 4}
    with pytest.raises(LegibleError, match="the tables are table1, table3"):
        load_table_plans(["table9"], folder)
    with pytest.raises(LegibleError, match="holds no table files"):
        load_table_plans(["all"], folder / "nowhere")


def test_a_cell_by_hand():
    cell = Cell((1.0, 2.0, 6.0), (0.5, 0.5, 0.8))
    assert cell.mean == 3.0
    assert cell.within == pytest.approx(0.6)
    assert cell.between == pytest.approx(np.sqrt(7.0 / 3.0))  # variance ((−2)² + (−1)² + 3²)/2 = 7, of three policies
    assert cell.text(1) == "3.0 ± 0.6 [1.5]"
    assert Cell(()).text(1) == NOT_RUN


def test_shares_by_hand(folder: Path, snapshot):
    plan = TablePlan.load(folder / "table1.toml")
    # Of four p-values two are below .05. Benjamini-Hochberg: .01·4/1 = .04 stays, .04·4/2 = .08 does not.
    first = record(0, [verdict(0.01, 0.2), verdict(0.04, 0.01), verdict(0.5), verdict(0.9)])
    second = record(1, [verdict(0.5), verdict(0.6)])
    table = build_table(plan, {"DQN": [second, first]})
    cells = dict(zip(table.columns, table.rows["small", "greedy"], strict=True))
    assert cells["MT"].values == (0.5, 0.0)
    assert cells["MT, corrected"].values == (0.25, 0.0)
    assert cells["MT, fresh seeds"].values == (0.25, 0.0)
    assert cells["RT"].values == (0.25, 0.25), "the mean of the two families, ½ and 0"
    assert cells["RR"].values == ()
    assert cells["evaluations"].values == (4.0, 2.0)
    assert cells["MT"].paper == 0.13
    assert table.to_markdown() == snapshot


def test_equal_rule_sets_count_once(folder: Path):
    twice = [{**verdict(0.01), "set": "a"}, {**verdict(0.01), "set": "a"}, {**verdict(0.9), "set": "b"}]
    table = build_table(TablePlan.load(folder / "table1.toml"), {"DQN": [record(0, twice)]})
    cells = dict(zip(table.columns, table.rows["small", "greedy"], strict=True))
    assert cells["evaluations"].values == (2.0,)
    assert cells["MT"].values == (0.5,)


def test_improvement_by_hand(folder: Path, snapshot):
    table = build_table(TablePlan.load(folder / "table3.toml"), {"DQN": [record(0, []), record(1, [])]})
    cells = dict(zip(table.columns, table.rows["small", "greedy"], strict=True))
    assert (cells["base"].mean, cells["base"].within) == (10.5, 1.5)
    assert cells["rule sets"].mean == 0.5
    assert cells["extended training"].values == ()
    assert cells["best reference"].text(1) == snapshot, "the best that played the final seeds"
    rows = list(csv.DictReader(table.to_csv().splitlines()))
    base = next(row for row in rows if (row["column"], row["mode"]) == ("base", "greedy"))
    assert (base["mean"], base["within"], base["between"], base["paper"]) == ("10.5", "1.5", "0.5", "1023.6")


def test_records_are_written_the_same_twice_and_damage_is_named(tmp_path: Path):
    one, two = tmp_path / "one.json.gz", tmp_path / "two.json.gz"
    save_record({"b": 1, "a": "ä"}, one)
    save_record({"a": "ä", "b": 1}, two)
    assert one.read_bytes() == two.read_bytes()
    assert load_record(one) == {"a": "ä", "b": 1}
    whole = one.read_bytes()
    broken = whole[:12] + bytes([whole[12] ^ 255]) + whole[13:]
    for damaged in (whole[:-9], broken, gzip.compress(b"[" * 100_000), gzip.compress(b"3"), b"no gzip"):
        one.write_bytes(damaged)
        with pytest.raises(LegibleError, match="is damaged"):
            load_record(one)


def reproduce_small(tables: list[str], folder: Path, **more: object) -> tuple[list[str], list[str]]:
    """Return the names of the tables that were made, and of the jobs that began."""
    begun: list[str] = []

    def begin(job: object, number: int, of: int) -> None:
        begun.append(f"{number} of {of}: {job.name}")

    folders = {"experiments": folder, "out": folder / "results", "work": folder / "work"}
    made = reproduce(tables, **folders, scale=0.02, engine=InProcess(), on_job=begin, **more)
    return [table.name for table in made], begun


def test_a_small_reproduction_runs_once_and_can_be_rebuilt(folder: Path):
    both = ["table1", "table3"]
    assert reproduce_small(["all"], folder, modes=["greedy"]) == (both, ["1 of 1: small-0-greedy"])
    assert reproduce_small(["all"], folder, modes=["greedy"]) == (both, [])  # there is nothing left to do
    made = load_record(folder / "results" / "records" / "studies" / "small-0-greedy.json.gz")
    assert len(made["RT"]["block"]) == len(made["RT"]["enforce"]) == 2
    assert made["extended"]["episodes"] == made["improvement"]["base"]["episodes"] == 20
    assert made["known_rule"]["rule"].startswith("-North")
    assert 0.0 <= made["groups"]["Ghosts"] <= 1.0
    assert made["extended"]["guided_over_extended"]["mean"] == pytest.approx(
        made["improvement"]["guided"]["mean"] - made["extended"]["mean"], abs=0.01
    )
    assert min(made["steps"]["evaluation"], made["steps"]["final"]) > 20
    assert len(made["code"]["sources"]) == 12
    assert made["processor"]
    assert compare_records(folder / "results", folder / "results") == {"studies/small-0-greedy": []}
    jobs = jobs_of(load_table_plans(["all"], folder), 0.02)
    left = missing_jobs(jobs, folder / "results")
    assert [job.name for _, job in left] == ["small-0-epsilon-0.05"]
    assert missing_jobs(jobs, folder / "results", policies=[0]) == left
    assert missing_jobs(jobs, folder / "results", policies=[1]) == []
    assert expected_seconds(left, folder / "results", workers=2) == pytest.approx(sum(made["seconds"].values()) / 2)
    for name in ("table1", "table3"):
        again = table_from_records(TablePlan.load(folder / f"{name}.toml"), folder / "results", scale=0.02)
        assert (folder / "results" / f"{name}.md").read_text() == again.to_markdown()
        assert (folder / "results" / f"{name}.png").stat().st_size > 5000


def test_no_study_begins_after_the_time_limit(folder: Path):
    assert reproduce_small(["table1"], folder, minutes=1e-9)[1] == []


@pytest.mark.parametrize("name", sorted(find_tables(EXPERIMENTS)))
def test_the_tables_of_the_repository_come_from_its_records(name: str):
    table = table_from_records(TablePlan.load(EXPERIMENTS / f"{name}.toml"), EXPERIMENTS / "results")
    assert (EXPERIMENTS / "results" / f"{name}.md").read_text(encoding="utf-8") == table.to_markdown()
    assert (EXPERIMENTS / "results" / f"{name}.csv").read_text(encoding="utf-8") == table.to_csv()
    assert table.to_markdown() in (EXPERIMENTS / "results" / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_text_says_what_the_records_say():
    from lab.experiments.write_results import RESULTS, TABLES, results_page, tables_page

    assert RESULTS.read_text(encoding="utf-8") == results_page()
    assert TABLES.read_text(encoding="utf-8") == tables_page()


def test_no_figure_of_the_text_is_typed():
    from lab.experiments.write_results import TEMPLATE

    prose = re.sub(r"\{[^{}]*\}|`[^`]*`|\]\([^)]*\)", " ", TEMPLATE.read_text(encoding="utf-8"))
    contradictions = prose.index("The paper contradicts itself")
    numbers = set(re.findall(r"\d+(?:\.\d+)?", prose[:contradictions]))
    # Algorithm 1, ε, lengths of the experiment, and the three factors, which were measured apart from these tables.
    assert numbers <= {"1", "0.05", "5", "250", "80", "1200", "2.3", "1.8", "1.0", "1.2"}


def test_table_files_that_name_code_need_trust(tmp_path, monkeypatch, raises_saved) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "table1.toml").write_text(
        'title = "T"\nkind = "weaknesses"\n[paper]\n[studies]\nMine = "s.toml"\n'
    )
    (tmp_path / "experiments" / "s.toml").write_text(
        '[[row]]\nname = "small"\nenvironment = "planted:make"\npolicy = "zoo:PacmanSmall/dqn/{seed}"\n'
    )
    (tmp_path / "planted.py").write_text("open('ran', 'w')")
    with raises_saved(UntrustedCodeError):
        reproduce_command.main(["table1", "--experiments", "experiments"], standalone_mode=False)
    assert not (tmp_path / "ran").exists()
