"""One file of every kind that legible reads, and how it is read.

- `Sample`: a file, what reads it, and whether legible wrote it with a checksum.
- `make_samples`: all of them, each in a folder of its own.
- `plain`: any value as plain data that can be compared to the bit.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import safetensors
import safetensors.numpy
import torch

from harness.small_study import make_study
from legible.engines import InProcess
from legible.environments import EnvironmentSpec
from legible.environments.pacman.maze import load_maze
from legible.evaluation.units import UnitResult
from legible.features import FeatureSpace
from legible.files import read_json, read_text
from legible.guidance import GuidedPolicy
from legible.mining import Mining
from legible.play import Experiences
from legible.policies import Normalisation, load_normalisation, load_policy, save_normalisation, save_policy
from legible.relations import load_relations
from legible.reproduction.records import load_record, save_record
from legible.rules import parse_rule
from legible.settings import StudySettings
from legible.study import Study, UnitFiles
from legible.study.folder import StudyFolder, read_names

_MAZE = """%%%%%%%%%
%o. G  .%
%.%%.%% %
%...P..o%
%%%%%%%%%
"""
_ARCHITECTURE = """output = "values"
[[layers]]
name = "0"
activation = "relu"
[[layers]]
name = "2"
"""
_VEHICLES = """[[relation]]
name = "next vehicle"
words = "the same situation with every other vehicle one row further down"
actions = "same"
shift = { features = "vehicle{n}.*", by = 1 }
holds = { highway-v0 = "yes" }

[[relation]]
name = "mirror"
actions = { swap = ["Left", "Right"], same = ["Idle"] }
negate = ["vehicle*.y"]
reflect = { features = "ego.y", about = 0.333333333333 }
map = { features = "ego.lane", values = [[0, 2], [1, 1], [2, 0]] }

[[relation]]
name = "turn"
actions = { cycle = ["Left", "Idle", "Right"] }
cycle = [["vehicle1.x", "vehicle2.x", "vehicle3.x"]]
drop = ["ego.*"]
ignore = ["vehicle*.y", "*.speed?"]
"""
_NAMES = """[[features]]
name = "speed"
words = "how fast it drives"
[[features]]
name = "lane"
kind = "categorical"
values = { 0 = "the left lane", 1 = "the right lane" }
[[actions]]
name = "Brake"
[[actions]]
name = "Go"
words = "drive faster"
"""


@dataclass(frozen=True)
class Sample:
    """A file of one kind.

    Parameters
    ----------
    name
        What it is.
    path
        Where it is; other files that it needs lie beside it.
    read
        Reads the file as legible does.
    is_checked
        Whether legible wrote it and must notice any change; texts that people edit and files of others are not.
    """

    name: str
    path: Path
    read: Callable[[Path], Any]
    is_checked: bool = True


def make_samples(folder: Path) -> list[Sample]:
    """Write one file of every kind into folders below a folder."""
    made = folder / "made"
    made.mkdir(parents=True)
    found = [*_study_samples(made), *_policy_samples(made), *_text_samples(made)]
    found += [_older(sample) for sample in found if sample.path.suffix in {".safetensors", ".npz"}]
    return [_alone(sample, folder / f"{number:02}") for number, sample in enumerate(found)]


def _alone(sample: Sample, folder: Path) -> Sample:
    """The sample in a folder of its own, with what lies beside it."""
    beside = sample.path.parent
    if sample.name in {"names.json", "study.json", "study.json of older versions"}:
        shutil.copytree(beside, folder, ignore=shutil.ignore_patterns("units", "experiences*", "*.html"))
    else:
        folder.mkdir()
        for other in beside.glob(f"{sample.path.stem}.*"):
            shutil.copy(other, folder)
    return dataclasses.replace(sample, path=folder / sample.path.name)


def _older(sample: Sample) -> Sample:
    """The sample as older versions wrote it, without key and checksum; then damage gets further."""
    path = sample.path.parent / "without checksums" / sample.path.name
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".npz":
        with np.load(sample.path) as data:
            np.savez(path, **{name: data[name] for name in data.files if not name.startswith("_")})
    else:
        with safetensors.safe_open(sample.path, framework="numpy") as file:
            document = json.loads(file.metadata()["legible"])
        del document["sha256"]
        metadata = {"legible": json.dumps(document)}
        path.write_bytes(safetensors.numpy.save(safetensors.numpy.load_file(sample.path), metadata))
    return dataclasses.replace(sample, name=f"{sample.name} without checksum", path=path, is_checked=False)


def _study_samples(folder: Path) -> list[Sample]:
    from flawed_network import save_flawed_network

    policy = save_flawed_network(folder / "mirror.safetensors")
    study = make_study(folder / "study", policy, engine=InProcess())
    study.run(report=False, baselines=True)
    key = str(json.loads((study.folder / "study.json").read_text())["about"]["id"])
    unit = min((study.folder / "units").glob("*.npz"))
    balance = _cartpole_study(folder / "cartpole")
    older = folder / "older"
    shutil.copytree(balance, older)
    kept = json.loads((older / "study.json").read_text())
    text = json.dumps({name: value for name, value in kept.items() if not name.startswith("_")}, indent=1)
    (older / "study.json").write_text(text)
    record = folder / "record.json.gz"
    save_record({"study": kept, "numbers": [0.5, 1.5], "rules": ["+Left <- left"]}, record)
    return [
        Sample("policy", policy, load_policy),
        Sample("guided policy", study.folder / "guided.safetensors", load_policy),
        Sample("experiences", study.folder / "experiences.npz", lambda path: Experiences.load(path, key)),
        Sample("mining", study.folder / "mining.npz", lambda path: Mining.load(path, key)),
        Sample("unit", unit, lambda path: UnitFiles(path.parent, UnitResult)[path.stem]),
        Sample("composition", study.folder / "composition.json", lambda path: read_json(path, key)),
        Sample("baselines", study.folder / "baselines.json", lambda path: read_json(path, key)),
        Sample("study.json", balance / "study.json", lambda path: StudyFolder(path.parent).read()),
        Sample("names.json", balance / "names.json", _names_of_study),
        Sample("study.json of older versions", older / "study.json", _open_study, is_checked=False),
        Sample("record", record, load_record),
    ]


def _cartpole_study(folder: Path) -> Path:
    """A study of an environment that opens without trust, with names; nothing of it is played."""
    torch.manual_seed(0)
    policy = load_policy(torch.nn.Sequential(torch.nn.Linear(4, 2)), output="values", n_features=4, n_actions=2)
    names = FeatureSpace.of(["x", "speed", "angle", "turning"], ["Left", "Right"])
    save_policy(policy, folder.with_suffix(".safetensors"))
    Study(folder, EnvironmentSpec("CartPole-v1"), folder.with_suffix(".safetensors"), names=names, relations="none")
    return folder


def _names_of_study(path: Path) -> FeatureSpace:
    study = StudyFolder(path.parent)
    study.check_files(study.read())
    return read_names(path)


def _open_study(path: Path) -> Any:
    study = Study.open(path.parent, engine=InProcess())
    return study.seed, study.settings, study.environment


def _policy_samples(folder: Path) -> list[Sample]:
    from stable_baselines3 import DQN, PPO
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    env = VecNormalize(DummyVecEnv([lambda: gymnasium.make("CartPole-v1")]))
    env.save(str(folder / "vecnormalize.pkl"))
    (folder / "zips").mkdir()
    small: dict[str, Any] = {"policy_kwargs": {"net_arch": [6]}, "device": "cpu", "seed": 0}
    PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, **small).save(folder / "zips" / "ppo.zip")
    DQN("MlpPolicy", "CartPole-v1", buffer_size=8, **small).save(folder / "zips" / "dqn.zip")
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
    torch.save(net.state_dict(), folder / "tensors.pth")
    (folder / "tensors.toml").write_text(_ARCHITECTURE)
    statistics = Normalisation(np.arange(4.0), np.ones(4), 1e-8, 10.0)
    numbers, text = (save_normalisation(statistics, folder / f"statistics{end}") for end in (".npz", ".toml"))
    return [
        Sample("PPO zip", folder / "zips" / "ppo.zip", load_policy, is_checked=False),
        Sample("DQN zip", folder / "zips" / "dqn.zip", load_policy, is_checked=False),
        Sample("VecNormalize", folder / "vecnormalize.pkl", load_normalisation, is_checked=False),
        Sample("tensors of PyTorch", folder / "tensors.pth", load_policy, is_checked=False),
        Sample("architecture", folder / "tensors.toml", _policy_of_architecture, is_checked=False),
        Sample("statistics as npz", numbers, load_normalisation),
        Sample("statistics as TOML", text, load_normalisation, is_checked=False),
    ]


def _policy_of_architecture(path: Path) -> Any:
    return load_policy(path.with_suffix(".pth"))


def _text_samples(folder: Path) -> list[Sample]:
    import mirror_world

    space = mirror_world.SPACE
    vehicles = FeatureSpace.of(
        ["ego.y", "ego.lane", *(f"vehicle{i}.{what}" for i in range(1, 5) for what in "xy")], ["Left", "Idle", "Right"]
    )
    texts = {
        "mirror.toml": mirror_world.MIRROR,
        "vehicles.toml": _VEHICLES,
        "names.toml": _NAMES,
        "settings.toml": StudySettings().to_toml(),
        "rules.txt": "+Left <- left = 1 & luck > -0.5\n-Right <- 0.25 < luck <= 1.5 & not wall.right\n",
        "small.lay": _MAZE,
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [
        Sample("relations", folder / "mirror.toml", lambda path: load_relations(path, space), is_checked=False),
        Sample("relations of rows", folder / "vehicles.toml", lambda p: load_relations(p, vehicles), is_checked=False),
        Sample("names", folder / "names.toml", FeatureSpace.from_toml, is_checked=False),
        Sample("settings", folder / "settings.toml", StudySettings.from_toml, is_checked=False),
        Sample("rules", folder / "rules.txt", lambda path: _rules(path, space), is_checked=False),
        Sample("maze", folder / "small.lay", load_maze, is_checked=False),
    ]


def _rules(path: Path, space: FeatureSpace) -> list[Any]:
    return [parse_rule(line, space) for line in read_text(path).splitlines()]


def plain(value: Any) -> Any:
    """Return a value as plain data that can be compared to the bit."""
    if isinstance(value, GuidedPolicy):
        return plain([value.policy, value.rules, value.space, value.precedence])
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return repr(value)
