"""From a study, or the file of a guided policy, to a network without rules.

- `distil`: `legible.distil`; `distillation_settings_for`: the default settings of learning.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from legible.distillation import Distillation, RoundCheck, distil_policy, write_network
from legible.distillation.distil import check_distillable, check_file_name, check_output
from legible.engines import Engine
from legible.environments import EnvironmentSpec, refuse_named_code, with_features
from legible.environments.feature_readers import FunctionReader
from legible.errors import LegibleError
from legible.guidance import GuidedPolicy
from legible.play import environment_for
from legible.policies import Policy, load_policy
from legible.settings import DistillationSettings, PlaySettings
from legible.study.estimate import is_native, settings_for
from legible.study.running import Progress, ignore_progress
from legible.study.study import Study


class _Source(NamedTuple):
    """A guided policy, where and how it plays, and the seed of its study."""

    guided: GuidedPolicy
    environment: EnvironmentSpec
    play: PlaySettings
    seed: int
    time_limit: float | None = None


def distil(
    source: str | Path | Study | GuidedPolicy,
    out: str | Path | None = None,
    *,
    environment: str | EnvironmentSpec | None = None,
    seed: int | None = None,
    settings: DistillationSettings | None = None,
    engine: Engine | None = None,
    trust: bool = False,
    force: bool = False,
    progress: Progress = ignore_progress,
    on_round: Callable[[RoundCheck], None] | None = None,
) -> Distillation:
    """Make a network without rules that does what a guided policy does: same architecture, started from its weights.

    Stopped at any time, it goes on after its last whole round when it is called again with the same arguments: rounds
    are kept in a folder next to the output until the output is written.

    Parameters
    ----------
    source
        A study or its folder, whose steps up to the guided policy are done if they are missing; or a guided policy or
        its file.
    out
        Where the network goes: ``.zip`` for Stable-Baselines3, or ``.safetensors``. Without, nothing is written.
    environment
        Where a guided policy plays, by default the environment that its file names; a study has its own.
    seed
        Decides everything that is random; by default the study's, or 0.
    settings
        How it learns; by default fewer episodes in environments without a vector form.
    engine
        Where episodes run; by default the study's, or this process. The result does not depend on it.
    trust
        Whether to import what a study's folder, or the file of a guided policy, names.
    force
        Whether a file that is there is overwritten.
    progress, on_round
        Called with the progress.

    Examples
    --------
    >>> import legible
    >>> found = legible.distil("studies/small", "network.zip")  # doctest: +SKIP
    >>> found.comparison.kept.share  # doctest: +SKIP
    0.98
    """
    target = None if out is None else Path(out)
    if target is not None:
        check_file_name(target)
    found, its_engine = _source_of(source, environment, trust=trust, engine=engine, progress=progress)
    checkpoint = None if target is None else target.with_name(f"{target.name}.distil")
    check_distillable(found.guided, found.environment)
    if target is not None and checkpoint is not None:
        check_output(target, found.guided.network)
        if target.exists() and not force and not checkpoint.exists():
            raise LegibleError(f"{target}: is there already; use another name, or --force to overwrite it.")
        target.parent.mkdir(parents=True, exist_ok=True)
    distilled = distil_policy(
        found.guided,
        found.environment,
        seed=found.seed if seed is None else seed,
        settings=distillation_settings_for(settings, found.environment),
        play=found.play,
        engine=its_engine,
        time_limit=found.time_limit,
        checkpoint=checkpoint,
        force=force,
        progress=progress,
        on_round=on_round or (lambda _: None),
    )
    if target is not None and checkpoint is not None:
        write_network(distilled.policy, target)
        shutil.rmtree(checkpoint, ignore_errors=True)
    return distilled


def distillation_settings_for(
    settings: DistillationSettings | None, environment: EnvironmentSpec
) -> DistillationSettings:
    """Return settings, by default the ones that suit an environment."""
    usual = DistillationSettings()
    return settings or (usual if is_native(environment) else usual.for_single_environments())


def _source_of(
    source: Any, environment: str | EnvironmentSpec | None, *, trust: bool, engine: Engine | None, progress: Progress
) -> tuple[_Source, Engine | None]:
    """Return the guided policy and its setting from a study, a file or an object, and the engine to use."""
    if isinstance(source, str | Path) and Path(source).is_dir():
        source = Study.open(source, trust=trust, engine=engine, progress=progress)
    if isinstance(source, Study):
        if environment is not None:
            raise LegibleError(f"the study in {source.folder} has its environment already.")
        if not len(source.improve().composition):
            raise LegibleError(
                f"{source.folder}: no rules helped the policy, so there is nothing to distil ('legible run "
                f"{source.folder}' says more)."
            )
        play, limit = source.settings.play, source.settings.time_limit or None
        return _Source(source.guided_policy(), source.environment, play, source.seed, limit), engine or source.engine
    guided = load_policy(source) if isinstance(source, str | Path) else source
    if not isinstance(guided, GuidedPolicy):
        name = source if isinstance(source, str | Path) else type(source).__name__
        raise LegibleError(f"{name}: is no guided policy and no folder of a study: it has no rules to distil.")
    if trust:
        guided = guided.trusting()
    where = str(source) if isinstance(source, str | Path) else "the file of this guided policy"
    spec = _environment_of(guided, environment, where, trust=trust)
    return _Source(guided, spec, settings_for(spec).play, 0), engine


def _environment_of(
    guided: GuidedPolicy, environment: str | EnvironmentSpec | None, where: str, *, trust: bool
) -> EnvironmentSpec:
    """Return the environment that the user names, or the one in the file of the policy, which is only data."""
    network: Policy = guided.network
    if environment is None:
        known = getattr(network, "env_id", None)
        if known is None:
            raise LegibleError("the file of this guided policy does not name its environment; give it (--env).")
        written = getattr(network, "metadata", {}).get("environment")
        arguments = written.get("arguments") if isinstance(written, dict) else None
        environment = EnvironmentSpec(known, dict(arguments) if isinstance(arguments, dict) else {})
        refuse_named_code(environment, where, trust=trust)
    spec = EnvironmentSpec(environment) if isinstance(environment, str) else environment
    spec = environment_for(network, spec)
    if guided.features is None:
        return spec
    if isinstance(guided.features.reader, FunctionReader):
        guided.features.reader.check_trusted()
    return with_features(spec, guided.features)
