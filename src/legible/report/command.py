"""The command line that repeats a study: `rerun_command`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from legible.environments import feature_space_of
from legible.features import FeatureSpace
from legible.relations import resolve_relations
from legible.study import Study


def rerun_command(study: Study) -> str:
    """Return the command that repeats the study, to be typed in its folder.

    It reads the settings from ``settings.toml`` and names of the user from ``names.toml``; the report tells the reader
    how to make these files. It is empty for a policy that was not loaded from a file.
    """
    own_policy = study.folder / "policy.safetensors"
    policy = study.policy_name
    if not policy.startswith("zoo:") and own_policy.exists():
        policy = own_policy.name
    if not policy:
        return ""
    saved = json.loads((study.folder / "study.json").read_text(encoding="utf-8"))
    loading_options = {} if policy == own_policy.name else saved["about"].get("policy options", {})
    options = [("--seed", str(study.seed))]
    for name, value in loading_options.items():
        options.append(("--policy-output" if name == "output" else f"--{name}", value))
    options += [("--arg", f"{name}={json.dumps(value)}") for name, value in saved["arguments"].items()]
    options += [("--wrap", wrapper) for wrapper in saved["wrappers"]]
    # Relations are an option only if they are not those that the environment has by default.
    files = sorted((study.folder / "relations").glob("*.toml"))
    default = [entry.text for entry in resolve_relations(study.environment, study.space).texts]
    if [path.read_text(encoding="utf-8") for path in files] != default:
        # A study without relations says so.
        chosen = [f"relations/{path.name}" for path in files] or ["none"]
        options += [("--relations", name) for name in chosen]
    # So are names: every study keeps its own in a file.
    names = study.folder / "names.json"
    if names.exists():
        env = study.environment.make()
        own_names = FeatureSpace.from_dict(json.loads(names.read_text(encoding="utf-8")), str(names))
        if own_names != feature_space_of(env):
            options.append(("--names", "names.toml"))
        env.close()
    options += [("--features", saved["features"])] if "features" in saved else []
    options += [("--rule", rule) for rule in saved["rules"]] + [("--veto", rule) for rule in saved["veto"]]
    options += [("--rules-from", _as_found(entry["file"] or entry["name"])) for entry in saved["rules from"]]
    options += [("--other", f"{name}={_as_found(source)}") for name, source in study.other_policies.items()]
    options += [("--settings", "settings.toml"), ("--out", "again")]
    return shlex.join(["legible", "run", study.environment.name, policy, *(word for pair in options for word in pair)])


def _as_found(source: str) -> str:
    """Return a policy without its folder, so that the report shows no private paths."""
    return Path(source).name if Path(source).is_absolute() else source
