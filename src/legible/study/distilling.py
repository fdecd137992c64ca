"""From a study, or the file of a guided policy, to a network without rules (`legible.distil`)."""

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
    """Return a network without rules that acts like a guided policy (a policy with rules that change some actions).

    The network has the architecture of the policy's and starts from its weights. A run that was stopped continues after
    its last complete round when it is called again with the same arguments: rounds are kept in a folder next to the
    output until the output is written.

    Parameters
    ----------
    source
        A study or its folder, whose steps up to the guided policy are done if they are missing; or a guided policy or
        its file.
    out
        File of the network: ``.zip`` for Stable-Baselines3, or ``.safetensors``. None: nothing is written.
    environment
        The environment of a guided policy; by default the one that its file names. A study has its own.
    seed
        Seed of all random numbers; by default the study's, or 0.
    settings
        Settings of learning; by default with fewer episodes in environments without a vector form.
    engine
        Where episodes run; by default the study's engine, or this process. The result does not depend on it.
    trust
        Whether to import code that a study's folder, or the file of a guided policy, names.
    force
        Whether to overwrite an existing file.
    progress, on_round
        Called with the name, the finished and the total number of the current work, and with the evaluation of each
        round of learning.

    Examples
    --------
    >>> import legible
    >>> distillation = legible.distil("studies/small", "network.zip")  # doctest: +SKIP
    >>> distillation.comparison.kept.share  # doctest: +SKIP
    0.98
    """
    target = None if out is None else Path(out)
    if target is not None:
        check_file_name(target)
    to_distil, its_engine = _source_of(source, environment, trust=trust, engine=engine, progress=progress)
    # Refuse what cannot be distilled or written, before hours of learning. `checkpoint` is a folder of finished rounds.
    checkpoint = None if target is None else target.with_name(f"{target.name}.distil")
    check_distillable(to_distil.guided, to_distil.environment)
    if target is not None and checkpoint is not None:
        check_output(target, to_distil.guided.network)
        # A run that was stopped and left its rounds was allowed to write this file.
        if target.exists() and not force and not checkpoint.exists():
            raise LegibleError(f"{target}: exists already; use another name, or --force to overwrite it.")
        target.parent.mkdir(parents=True, exist_ok=True)
    distilled = distil_policy(
        to_distil.guided,
        to_distil.environment,
        seed=to_distil.seed if seed is None else seed,
        settings=distillation_settings_for(settings, to_distil.environment),
        play=to_distil.play,
        engine=its_engine,
        time_limit=to_distil.time_limit,
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
    """Return the guided policy to distil with its environment, settings and seed, and the engine to play on.

    The arguments are those of `distil`.
    """
    # A study: play until its rules are known.
    if isinstance(source, str | Path) and Path(source).is_dir():
        source = Study.open(source, trust=trust, engine=engine, progress=progress)
    if isinstance(source, Study):
        if environment is not None:
            raise LegibleError(f"the study in {source.folder} has its own environment; leave the environment out.")
        if not len(source.improve().composition):
            raise LegibleError(
                f"{source.folder}: no rules helped the policy, so there is nothing to distil ('legible show "
                f"{source.folder}' says more)."
            )
        play, limit = source.settings.play, source.settings.time_limit or None
        return _Source(source.guided_policy(), source.environment, play, source.seed, limit), engine or source.engine
    # A guided policy, or its file.
    guided = load_policy(source) if isinstance(source, str | Path) else source
    if not isinstance(guided, GuidedPolicy):
        name = source if isinstance(source, str | Path) else type(source).__name__
        raise LegibleError(
            f"{name}: has no rules to distil, because it is neither a guided policy nor the folder of a study."
        )
    if trust:
        guided = guided.trusting()
    where = str(source) if isinstance(source, str | Path) else "the file of this guided policy"
    spec = _environment_of(guided, environment, where, trust=trust)
    return _Source(guided, spec, settings_for(spec).play, seed=0), engine


def _environment_of(
    guided: GuidedPolicy, environment: str | EnvironmentSpec | None, where: str, *, trust: bool
) -> EnvironmentSpec:
    """Return the environment that the user names, or the one in the file of the policy, which is only data."""
    network: Policy = guided.network
    if environment is None:
        env_id = getattr(network, "env_id", None)
        if env_id is None:
            raise LegibleError("the file of this guided policy does not name its environment; give it (--env).")
        written = getattr(network, "metadata", {}).get("environment")
        arguments = written.get("arguments") if isinstance(written, dict) else None
        environment = EnvironmentSpec(env_id, dict(arguments) if isinstance(arguments, dict) else {})
        refuse_named_code(environment, where, trust=trust)
    spec = EnvironmentSpec(environment) if isinstance(environment, str) else environment
    spec = environment_for(network, spec)
    if guided.features is None:
        return spec
    if isinstance(guided.features.reader, FunctionReader):
        guided.features.reader.check_trusted()
    return with_features(spec, guided.features)
