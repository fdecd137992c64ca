"""Records: all that one study found, as plain data that is small enough to keep.

- `make_record`: run a job's study and write down every verdict, the composition and what it is worth.
- `save_record`, `load_record`: compressed JSON.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lab.reproduction.baselines import play_baseline
from lab.reproduction.origin import code_version, processor_name
from lab.reproduction.plan import Job
from legible.engines import Engine
from legible.environments import domain_groups
from legible.errors import LegibleError
from legible.evaluation import Evaluation, Sample, Verdict, WorstCase, play_blocks
from legible.evaluation.statistics import paired
from legible.evaluation.units import UNGUIDED, UnitResult, run_units
from legible.explanation import feature_groups, group_shares
from legible.features import FeatureSpace
from legible.files import write_whole
from legible.policies import load_policy
from legible.relations import generalise_all
from legible.rules import RuleSet, parse_rule
from legible.study import Study

Record = dict[str, Any]
Progress = Callable[[str, int, int], None]
DIGITS = 6


def make_record(
    job: Job, folder: Path, *, seed: int, engine: Engine, trust: bool = False, progress: Progress | None = None
) -> Record:
    """Run everything that the tables need of one policy.

    Parameters
    ----------
    job
        Which policy, in which mode, with which settings.
    folder
        Of the study; what it holds already is not run again.
    seed
        Of the study.
    engine
        Where episodes run.
    trust
        Whether the policy may be code: its name comes out of a file.
    progress
        Called with a stage, and with how many of how many episodes are done.
    """
    seconds: dict[str, float] = {}
    study = Study(
        folder,
        job.row.spec,
        job.policy,
        seed=seed,
        settings=job.settings,
        allow_code=trust,
        engine=engine,
        progress=progress,
    )
    with _timed(seconds, "experiences"):
        space = study.collect().space
    with _timed(seconds, "mining"):
        mined = [found.rule for found in study.mine().rules]
    with _timed(seconds, "evaluation"):
        evaluation = study.evaluate()
    with _timed(seconds, "random tests"):
        tests = {kind: play_baseline(study, kind, job.random_tests) for kind in ("block", "enforce") if job.baselines}
    with _timed(seconds, "random rules"):
        random_rules = play_baseline(study, "rules") if study.rule_sets and job.baselines else None
    with _timed(seconds, "improvement"):
        improvement = study.improve()
    with _timed(seconds, "references"):
        references = study.play_references()
    with _timed(seconds, "extended"):
        extended = _extended(job, study) if job.extended else None
    baselines = [*tests.values(), *([random_rules] if random_rules is not None else [])]
    with _timed(seconds, "known rule"):
        known = _known_rule(job.row.known_rule, study) if job.row.known_rule else None
    return {
        "row": job.row.name,
        "environment": job.row.environment,
        "arguments": dict(job.row.arguments),
        "policy": job.policy,
        "policy_seed": job.seed,
        "mode": job.mode,
        "seed": seed,
        "settings": asdict(job.settings),
        "mined": [[rule.text(space), _short(m.agreement), _short(m.coverage)]
                  for rule, m in zip(mined, study.mining.rules, strict=True)],
        "groups": _numbers(group_shares(mined, space, _groups(study))) if mined else {},
        "base": _sample(evaluation.base),
        "MT": _verdicts(evaluation, space),
        "RT": {kind: _verdicts(found, space) for kind, found in tests.items()},
        "RR": _verdicts(random_rules, space) if random_rules is not None else [],
        "improvement": {
            "rule_sets": [rule_set.short_text(space) for rule_set in improvement.rule_sets],
            "rules": len(improvement.composition),
            "chosen": _sample(improvement.chosen),
            "base": _sample(improvement.base),
            "guided": _sample(improvement.guided),
            "effect": _numbers(asdict(improvement.effect)),
            "steps": [
                [step.rule_set.short_text(space), _short(step.mean), step.accepted] for step in improvement.steps
            ],
        },
        "references": [_numbers(row) for row in references.to_rows()],
        "extended": extended,
        "known_rule": known,
        "seconds": _numbers(seconds),
        "workers": engine.workers,
        "steps": {
            "experiences": len(study.experiences),
            "evaluation": evaluation.steps,
            "baselines": sum(found.steps for found in baselines),
            "final": sum(int(block.lengths.sum()) for block in improvement.final_blocks.results),
        },
        "code": code_version(),
        "processor": processor_name(),
    }  # fmt: skip


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - begin


def _extended(job: Job, study: Study) -> Record:
    """Return the figures of the policy that was trained for longer, on the seeds of the final figure."""
    setup = replace(study.setup(), policy=load_policy(job.extended))
    seeds = study.improvement.final_blocks.seeds
    # Not with the study's runner: its store knows one policy only.
    run = partial(run_units, engine=study.engine, time_limit=study.settings.time_limit or None)
    played = play_blocks(setup, [(UNGUIDED, seeds)], run)[0]
    blocks = study.improvement.final_blocks
    worst = WorstCase((played, *blocks.results))

    def over(guided: UnitResult, base: UnitResult) -> Record:
        better, worse = worst.of(guided, base)
        return _numbers(asdict(paired(better.returns, worse.returns)))

    return _sample(Sample.of(played)) | {
        "over_base": over(played, blocks.base),
        "guided_over_extended": over(blocks.results[-1], played),
    }


def _known_rule(text: str, study: Study) -> Record:
    """Return whether a rule of the paper's was mined, or one that contains it, and the effect of its generalisation."""
    rule = parse_rule(text, study.space)
    generalised = generalise_all([rule], study.relations)[0]
    relatives = [m.rule for m in study.mining.rules if any(r.contains(m.rule) for r in generalised.rules)]
    setup = study.setup([generalised])
    seeds = study.improvement.final_blocks.seeds
    base, guided = play_blocks(setup, [(UNGUIDED, seeds), (0, seeds)], study.runner("known rule"))
    better, worse = WorstCase((base, guided)).of(guided, base)
    return {
        "rule": text,
        "mined": rule in [m.rule for m in study.mining.rules],
        "related": [relative.text(study.space) for relative in relatives],
        "effect": _numbers(asdict(paired(better.returns, worse.returns))),
        "changed": _short(guided.changed.sum() / max(1, guided.lengths.sum())),
    }


def _groups(study: Study) -> dict[str, tuple[str, ...]]:
    """Return the groups of the domain, in PAC-Man those of the paper, or the features' own."""
    return domain_groups(study.environment, study.space) or feature_groups(study.space)


def _verdicts(evaluation: Evaluation, space: FeatureSpace) -> list[Record]:
    return [_verdict(verdict, space) for verdict in evaluation.verdicts]


def _verdict(verdict: Verdict, space: FeatureSpace) -> Record:
    record: Record = {
        "mean": verdict.sample.mean,
        "error": verdict.sample.error,
        "p": verdict.p,
        "q": verdict.q,
        "p_harm": verdict.p_harm,
        "fired": verdict.sample.fired,
        "changed": verdict.sample.changed,
    }
    if verdict.confirmation is not None:
        effect = verdict.confirmation.effect
        record |= {"effect": effect.mean, "low": effect.low, "high": effect.high, "q_fresh": verdict.confirmation.q}
        if verdict.confirmation.of_generalisation is not None:
            record["p_generalisation"] = verdict.confirmation.of_generalisation.p
    record = _numbers(record)
    if isinstance(verdict.treatment, RuleSet):
        record["rules"] = len(verdict.treatment)
        record["set"] = _identity(verdict.treatment, space)
        if verdict.treatment.source is not None:
            record["rule"] = verdict.treatment.source.text(space)
    return record


def _identity(rule_set: RuleSet, space: FeatureSpace) -> str:
    """Return a short hash that equal rule sets share: of their rules in any order."""
    texts = sorted(rule.text(space) for rule in rule_set.rules)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8]


def _sample(sample: Sample) -> Record:
    return {key: value for key, value in _numbers(asdict(sample)).items() if value == value}  # noqa: PLR0124 (NaN)


def _short(value: float) -> float:
    """Return a number with six digits."""
    return float(f"{value:.{DIGITS}g}")


def _numbers(data: Record) -> Record:
    return {
        key: _short(float(value)) if isinstance(value, (float, np.floating)) else value for key, value in data.items()
    }


def save_record(record: Record, path: Path) -> None:
    """Write a record; the same record gives the same bytes."""
    text = json.dumps(record, sort_keys=True, ensure_ascii=False)
    write_whole(path, lambda file: file.write(gzip.compress(text.encode(), mtime=0)))


def load_record(path: Path) -> Record:
    """Read a record."""
    try:
        loaded: Record = json.loads(gzip.decompress(path.read_bytes()))
        if not isinstance(loaded, dict):
            raise ValueError("a table is expected")
    except (ValueError, EOFError, RecursionError, zlib.error, gzip.BadGzipFile) as error:
        raise LegibleError(f"{path}: is damaged; delete it to make it again.") from error
    except OSError as error:
        raise LegibleError(f"{path}: cannot be read ({error}).") from error
    return loaded
