"""The command line that makes a study again.

- `rerun_command`: it, with all that was given.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from legible.environments import feature_space_of
from legible.features import FeatureSpace
from legible.relations import resolve_relations
from legible.study import Study


def rerun_command(study: Study) -> str:
    """The command that makes the study again in its folder, given its settings (and names, if any) as files.

    It is empty for a policy that was never a file.
    """
    own = study.folder / "policy.safetensors"
    policy = study.policy_name
    if not policy.startswith("zoo:") and own.exists():
        policy = own.name
    if not policy:
        return ""
    kept = json.loads((study.folder / "study.json").read_text(encoding="utf-8"))
    told = {} if policy == own.name else kept["about"].get("policy options", {})
    options = [("--seed", str(study.seed))]
    options += [("--policy-output" if name == "output" else f"--{name}", value) for name, value in told.items()]
    options += [("--arg", f"{name}={json.dumps(value)}") for name, value in kept["arguments"].items()]
    options += [("--wrap", wrapper) for wrapper in kept["wrappers"]]
    options += [("--relations", name) for name in _relation_files(study)]
    options += [("--names", "names.toml")] * _has_own_names(study)
    options += [("--features", kept["features"])] if "features" in kept else []
    options += [("--rule", rule) for rule in kept["rules"]] + [("--veto", rule) for rule in kept["veto"]]
    options += [("--rules-from", _as_found(entry["file"] or entry["name"])) for entry in kept["rules from"]]
    options += [("--other", f"{name}={_as_found(source)}") for name, source in study.other_policies.items()]
    options += [("--settings", "settings.toml"), ("--out", "again")]
    return shlex.join(["legible", "run", study.environment.name, policy, *(word for pair in options for word in pair)])


def _as_found(source: str) -> str:
    """A policy as it will be found: a file by its name, so that nobody's folders are told."""
    return Path(source).name if Path(source).is_absolute() else source


def _relation_files(study: Study) -> list[str]:
    """The study's relations for the command line: nothing where they are the package's own, "none" for none."""
    files = sorted((study.folder / "relations").glob("*.toml"))
    default = [entry.text for entry in resolve_relations(study.environment, study.space).texts]
    if [path.read_text(encoding="utf-8") for path in files] == default:
        return []
    return [f"relations/{path.name}" for path in files] or ["none"]


def _has_own_names(study: Study) -> bool:
    """Whether names were given that are not those that the environment has anyway."""
    path = study.folder / "names.json"
    if not path.exists():
        return False
    names = FeatureSpace.from_dict(json.loads(path.read_text(encoding="utf-8")), str(path))
    env = study.environment.make()
    try:
        return names != feature_space_of(env)
    finally:
        env.close()
