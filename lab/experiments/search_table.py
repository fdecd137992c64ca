"""Gains of studies with a search, policy by policy, and a table of them: ``python -m lab.experiments.search_table``.

Every policy is studied in its own process; its record is a JSON file, written when the study is done. Existing studies
and records are kept, so the command can be stopped and repeated. The table is made from the records alone:
``--table`` only writes it.

- `Job`, `read_jobs`: the policies of ``lab/experiments/search.toml``.
- `make_record`: studies one of them.
- `load_records`, `table`, `row_table`: the records, and as Markdown.
- `search_facts`, `road_facts`: the figures of the text.
- `composition_figures`: the figures of a composition, as plain data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lab.experiments.side_by_side import Seconds, chosen_seeds, job_parser, run_jobs, run_study
from lab.experiments.table_cells import format_effect, format_figure, interval_ends, interval_over_policies
from lab.reproduction.origin import code_version, processor_name
from legible.engines import InProcess
from legible.environments import EnvironmentSpec
from legible.evaluation import References
from legible.files import read_json, read_toml, write_text
from legible.formatting import join_words
from legible.improvement import Improvement
from legible.policies.zoo import zoo_names
from legible.settings import PRESETS, SettingsError, StudySettings
from legible.study import Study, settings_for
from legible.study.sources import source_rows

PLAN = Path(__file__).with_name("search.toml")
OUT = Path(__file__).with_name("results") / "search"
SEEDS = (0, 1, 2, 3, 4)


@dataclass(frozen=True)
class Job:
    """One policy: row, environment, seed, shares of actions that further compositions may change, settings."""

    row: str
    environment: str
    policy: str
    seed: int
    most_changed: tuple[float, ...] = ()
    preset: str = ""

    @property
    def name(self) -> str:
        """The name of its files."""
        words = "".join(letter if letter.isalnum() else "-" for letter in self.row.lower())
        return f"{'-'.join(filter(None, words.split('-')))}-{self.seed}"

    @property
    def is_there(self) -> bool:
        """True if the zoo has such a policy."""
        if not self.policy.startswith("zoo:"):
            return Path(self.policy).exists()
        return self.policy.removeprefix("zoo:") in zoo_names()


def read_jobs(path: Path = PLAN) -> list[Job]:
    """Return all policies of a plan, the first of every row first, so that all rows soon have some."""
    rows = read_toml(path, SettingsError)["row"]
    jobs = [_job(row, seed) for row in rows for seed in row.get("seeds", SEEDS)]
    return sorted(jobs, key=lambda job: job.seed)


def _job(row: Mapping[str, Any], seed: int) -> Job:
    policy, shares = row["policy"].format(seed=seed), tuple(row.get("most_changed", ()))
    return Job(row["name"], row["environment"], policy, seed, shares, row.get("preset", ""))


def make_record(job: Job, folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Study one policy and return what was found."""
    seconds = Seconds(folder.with_suffix(".seconds.json"))
    spec = EnvironmentSpec(job.environment)
    chosen = settings_for(spec, PRESETS[job.preset]() if job.preset else None).updated(settings)
    study = Study(folder, spec, job.policy, settings=chosen, engine=InProcess())
    evaluation, improvement, references = run_study(study, seconds)
    compositions = {"": composition_figures(improvement, references)}
    for share in job.most_changed:
        kind, smaller = f"most changed {share:g}", replace(chosen.improvement, most_changed=share)
        limited = replace(chosen, improvement=smaller)  # a separate study: the search respects the limit, too
        with seconds.of(kind):
            other = Study(
                folder.with_name(f"{folder.name}-{share:g}"), spec, job.policy, settings=limited, engine=InProcess()
            )
            compositions[kind] = composition_figures(other.improve(), references)
    return {
        **asdict(job),
        "compositions": compositions,
        "detectable": _detectable(evaluation.confirmed or evaluation.weaknesses),
        "confirmed": [
            {
                "rule": verdict.rule_set.short_text(study.space),
                "found_by": verdict.found_by,
                "effect": asdict(verdict.confirmation.effect) if verdict.confirmation else None,
                "changed": verdict.sample.changed,
            }
            for verdict in evaluation.confirmed
        ],
        "sources": [row.to_dict() for row in source_rows(study)],
        "references": references.to_rows(),
        "steps": {"experiences": len(study.experiences), "evaluation": evaluation.steps},
        "seconds": seconds.known,
        "settings": chosen.to_dict(),
        "versions": study.versions,
        "code": code_version(),
        "processor": processor_name(),
    }


def composition_figures(found: Improvement, references: References) -> dict[str, Any]:
    """Return the figures of a composition on held-out seeds, as plain data."""
    best, effects = references.best, found.effects()
    return {
        "base": asdict(found.base),
        "guided": asdict(found.guided),
        "gain": asdict(found.effect),
        "worst_tenth": {**asdict(effects["worst-tenth"])} if "worst-tenth" in effects else None,
        "changed": found.guided.changed,
        "rule_sets": len(found.rule_sets),
        "rules": len(found.composition),
        "best_reference": None if best is None else {"name": best.name, "mean": best.sample.mean},
    }


def _detectable(verdicts: Sequence[Any]) -> float | None:
    found = [v.confirmation.effect.detectable for v in verdicts if v.confirmation is not None]
    return min((value for value in found if value is not None), default=None)


# --- The table -------------------------------------------------------------------------------------------------------


def load_records(folder: Path = OUT, plan: Path = PLAN) -> list[Mapping[str, Any]]:
    """Read all records, in the order of the plan."""
    rows = [row["name"] for row in read_toml(plan, SettingsError)["row"]]
    records = [read_json(path) for path in sorted(folder.glob("*.json"))]
    return sorted(records, key=lambda record: (rows.index(record["row"]), record["seed"]))


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the records as Markdown: a line for each row and kind of composition, then one for each policy."""
    lines = [row_table(records), "| policy | kind | base | gain (95 % CI) | changed | rule sets | minutes | steps |"]
    lines.append("|---" * 8 + "|")
    for record in records:
        lines += [_policy_line(record, kind, found) for kind, found in record["compositions"].items()]
    return "\n".join(lines) + "\n"


def row_table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return a line for each row and kind of composition."""
    lines = [
        "| row | policies | base | guided | gain, mean over policies (95 % CI) | significantly worse | worst tenth "
        "| actions changed | best reference | confirmed rule sets | used: mined, searched, others |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record in records:
        for kind in record["compositions"]:
            groups.setdefault((record["row"], kind), []).append(record)
    lines += [_row_line(row, kind, found) for (row, kind), found in groups.items()]
    return "\n".join(lines) + "\n"


def _row_line(row: str, kind: str, records: Sequence[Mapping[str, Any]]) -> str:
    found = [record["compositions"][kind] for record in records]
    gains = np.array([one["gain"]["mean"] for one in found])
    worse = sum(one["gain"]["high"] < 0 for one in found)
    worst = [one["worst_tenth"]["mean"] for one in found if one["worst_tenth"]]
    references = [one["best_reference"]["mean"] for one in found if one["best_reference"]]
    confirmed = sum(len(record["confirmed"]) for record in records)
    used = [sum(s["used"] for r in records for s in r["sources"] if _kind(s["source"]) == each) for each in _KINDS]
    cells = (
        f"{row}{_preset(records[0])}{', ' + kind if kind else ''}",
        len(found),
        format_figure(np.mean([one["base"]["mean"] for one in found])),
        format_figure(np.mean([one["guided"]["mean"] for one in found])),
        f"{format_figure(gains.mean())} {interval_over_policies(gains)}",
        worse,
        format_figure(np.mean(worst)) if worst else "–",
        f"{100 * np.mean([one['changed'] for one in found]):.1f} %",
        format_figure(np.mean(references)) if references else "–",
        confirmed,
        "–" if kind else ", ".join(map(str, used)),  # sources are counted for the composition without a limit
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def _preset(record: Mapping[str, Any]) -> str:
    return f" (`--preset {record['preset']}`)" if record.get("preset") else ""


_KINDS = ("mined", "searched", "others")


def _kind(source: str) -> str:
    """Mined, searched, or one of the others."""
    return "mined" if source in {"mined", "alone"} else source if source == "searched" else "others"


def _policy_line(record: Mapping[str, Any], kind: str, found: Mapping[str, Any]) -> str:
    gain = found["gain"]
    cells = (
        f"{record['row']} {record['seed']}{_preset(record)}",
        kind,
        format_figure(found["base"]["mean"]),
        format_effect(gain),
        f"{100 * found['changed']:.1f} %",
        found["rule_sets"],
        f"{sum(record['seconds'].values()) / 60:.1f}" if record["seconds"] else "–",
        f"{sum(source['steps'] for source in record['sources']) / 1e6:.1f} M",
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def search_facts(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures that the text quotes, of PAC-Man's levels."""
    levels = [record for record in records if record["row"].startswith("PAC-Man")]
    found = [record["compositions"][""] for record in levels]
    gains = np.array([one["gain"]["mean"] for one in found])
    rows = {record["row"]: gains[[other["row"] == record["row"] for other in levels]].mean() for record in levels}
    low, high = interval_ends(gains)
    return {
        "policies": len(levels),
        "gain": gains.mean(),
        "low": low,
        "high": high,
        "rows": "; ".join(f"{row.removeprefix('PAC-Man ')} {gain:+.0f}" for row, gain in rows.items()),
        "better": sum(one["gain"]["low"] > 0 for one in found),
        "worse": sum(one["gain"]["high"] < 0 for one in found),
        "most": gains.max(),
        "changed": max(one["changed"] for one in found),
        "confirmed": sum(len(record["confirmed"]) for record in levels),
        "confirmed_searched": sum("searched" in one["found_by"] for record in levels for one in record["confirmed"]),
        "used": sum(one["rule_sets"] for one in found),
        "used_searched": sum(s["used"] for record in levels for s in record["sources"] if s["source"] == "searched"),
        "confirmed_in": sum(bool(record["confirmed"]) for record in levels),
        "steps": float(np.mean([sum(s["steps"] for s in record["sources"]) for record in levels])) / 1e6,
        "minutes": float(np.mean([sum(r["seconds"].values()) / 60 for r in levels if r["seconds"]])),
    }


def road_facts(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures that the text quotes, of the rows that have a preset: compositions, and plain ways to act."""
    road = [record for record in records if record.get("preset")]
    found = [record["compositions"][""] for record in road]
    return {
        "policies": len(road),
        "rows": _returns(road, limited=False),
        "references": join_words(sorted({one["best_reference"]["name"] for one in found})),
        "no_better": sum(one["guided"]["mean"] <= one["best_reference"]["mean"] for one in found),
        "changed": float(np.mean([one["changed"] for one in found])),
        "limited": _returns(road, limited=True),
        "limited_better": sum(one["gain"]["low"] > 0 for r in road for kind, one in r["compositions"].items() if kind),
    }


def _returns(records: Sequence[Mapping[str, Any]], *, limited: bool) -> str:
    """Base, guided and the best reference of every row, of compositions that may change all actions or fewer."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        rows.setdefault(record["row"], []).extend(
            one for kind, one in record["compositions"].items() if bool(kind) == limited
        )
    return "; ".join(f"{row} {_return_words(found)}" for row, found in rows.items())


def _return_words(found: Sequence[Mapping[str, Any]]) -> str:
    base, guided, best = (
        np.mean([one[name]["mean"] for one in found]) for name in ("base", "guided", "best_reference")
    )
    return f"{base:.0f} → {guided:.0f} ({best:.0f})"


# --- Running ---------------------------------------------------------------------------------------------------------


def main() -> None:
    """Run the missing studies, then write the table."""
    parser = job_parser(__doc__.splitlines()[0], PLAN, OUT, Path("studies/search"))
    parser.add_argument("--settings", type=Path, help="a TOML file with settings other than the default ones")
    asked = parser.parse_args()
    seeds = chosen_seeds(asked.seeds)
    jobs = [job for job in read_jobs(asked.plan) if asked.only.lower() in job.row.lower()]
    asked.out.mkdir(parents=True, exist_ok=True)
    settings = read_toml(asked.settings, SettingsError) if asked.settings else {}
    StudySettings().updated(settings, str(asked.settings))
    chosen = [job for job in jobs if seeds is None or job.seed in seeds]
    missing = [job for job in chosen if not (asked.out / f"{job.name}.json").exists()]
    for job in [job for job in missing if not job.is_there]:
        print(f"{job.row} {job.seed}: there is no policy {job.policy}; left out.")
    if not asked.table:
        run_jobs(make_record, [job for job in missing if job.is_there], asked, settings)
    text = table(load_records(asked.out, asked.plan))
    write_text(asked.out / "table.md", text)
    print(text)


if __name__ == "__main__":
    main()
