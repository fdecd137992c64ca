"""One file of every kind that legible reads, and its reader.

- `Sample`: a file, its reader, and whether legible wrote it with a checksum.
- `make_samples`: all of them, each in its own folder.
- `plain`: any value as plain data that can be compared to the bit.
"""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import safetensors
import safetensors.numpy
import torch

from lab.harness.mutations import mutate, mutate_behind_checksum
from lab.harness.small_study import make_study
from lab.reproduction.records import load_record, save_record
from legible.cli.show import SECTIONS
from legible.distillation.checkpoint import DistillationCheckpoint, SavedRound
from legible.distillation.distil import write_network
from legible.engines import InProcess
from legible.environments import EnvironmentSpec, FeatureMap
from legible.environments.feature_readers import InfoReader
from legible.evaluation.recorded import RecordedEpisodes
from legible.evaluation.units import UnitResult
from legible.evaluation.verdicts import Sample as UnitSample
from legible.features import FeatureSpace
from legible.files import read_json, read_text, sha256_of, write_json
from legible.guidance import GuidedPolicy
from legible.mining import Mining
from legible.mistakes import Mistakes, Rollouts
from legible.play import Experiences, environment_for
from legible.policies import (
    Normalisation,
    PolicyError,
    load_normalisation,
    load_policy,
    save_normalisation,
    save_policy,
)
from legible.policies.readers.rllib import ARGUMENTS, FILTERS, MODULES, STATE, filter_in, read_filter
from legible.relations import load_relations
from legible.rules import parse_rule
from legible.settings import DistillationSettings, StudySettings
from legible.study import STEPS, Study, UnitFiles, load_policy_for
from legible.study.folder import StudyFolder, read_kept_names
from legible.study.mending import _read_figures, read_mending
from legible.study.references import OtherPolicies
from legible.study.rules_from import FoundOrigins, Origin, OtherRules, _rules_in, read_others
from legible.study.sources import KeptSearch
from legible_envs.pacman.maze import load_maze

_MAZE = """%%%%%%%%%
%o. G  .%
%.%%.%% %
%...P..o%
%%%%%%%%%
"""
_CONFIG = """!!python/object/apply:collections.OrderedDict
- - - batch_size
    - 8
  - - env_wrapper
    - - rl_zoo3.wrappers.FrameSkip:
          skip: 2
      - sb3_contrib.common.wrappers.TimeFeatureWrapper:
          test_mode: true
  - - frame_stack
    - 2
  - - n_timesteps
    - 1000.0
  - - normalize
    - '{''norm_obs'': False}'
"""
_ARGS = """!!python/object/apply:collections.OrderedDict
- - - algo
    - ppo
  - - env
    - CartPole-v1
  - - env_kwargs
    - max_episode_steps: 100
  - - seed
    - 7
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
_DERIVED = """features = ["left", "right", "at_left", "at_right", "luck"]
groups = { steer = { left = [-1, -0.3], straight = [-0.3, 0.3], right = [0.3, 1] }, gear = ["slow", "fast"] }
[derived]
closing = "luck / max(1, -change(luck))"
before = "last_action.steer"
[derived.braked]
expression = "since(left) <= 3 and previous(right) == 1"
words = "has braked"
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

_WITH_FOLDER = (
    *("names.json", "study.json", "study.json without checksum", "mend.json", "mend.json without checksum"),
    "checkpoint of a distillation",
    *("RLlib's tensors", "RLlib's settings", "RLlib's connectors"),
)
_FIXTURES = Path(__file__).parents[2] / "tests" / "policies" / "fixtures"
_RLLIB = _FIXTURES / "rllib" / "ppo-filter"


@dataclass(frozen=True)
class Sample:
    """A file of one kind.

    Parameters
    ----------
    name
        The kind of file.
    path
        Where it is; other files that it needs lie next to it.
    read
        Reads the file as legible does.
    is_checked
        True if legible wrote it and must notice any change; texts that people edit and files of others are not.
    mutate
        Damages the content of the file.
    """

    name: str
    path: Path
    read: Callable[[Path], Any]
    is_checked: bool = True
    mutate: Callable[[bytes, random.Random], bytes] = mutate


def make_samples(folder: Path) -> list[Sample]:
    """Write one file of every kind into folders below a folder."""
    made = folder / "made"
    made.mkdir(parents=True)
    found = [*_study_samples(made), *_policy_samples(made), *_text_samples(made)]
    found += [
        _without_checksum(sample)
        for sample in found
        if sample.is_checked and sample.path.suffix in {".safetensors", ".npz", ".json"}
        # Checkpoints are refused without; files that need their folder have separate samples.
        if "checkpoint" not in sample.name and sample.name not in _WITH_FOLDER
    ]
    found += [
        dataclasses.replace(
            sample, name=f"{sample.name}, valid checksum", is_checked=False, mutate=mutate_behind_checksum
        )
        for sample in found
        if sample.is_checked and sample.path.suffix in {".safetensors", ".npz", ".json"}
        # The fleet's checkpoints hold the raw state of its games, and are only read by who wrote them.
        if sample.name not in {"full checkpoint", "light checkpoint"}
    ]
    return [_alone(sample, folder / f"{number:02}") for number, sample in enumerate(found)]


def _alone(sample: Sample, folder: Path) -> Sample:
    """Return the sample in its own folder, with the files next to it."""
    source = sample.path.parent
    if sample.name.split(", valid")[0] in _WITH_FOLDER or sample.path.suffix == ".yml":
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("units", "experiences*", "*.html"))
    else:
        folder.mkdir()
        for other in source.glob(f"{sample.path.stem}.*"):
            shutil.copy(other, folder)
    return dataclasses.replace(sample, path=folder / sample.path.name)


def _without_checksum(sample: Sample) -> Sample:
    """Return the sample without key and checksum, so that damage gets further."""
    path = sample.path.parent / "without checksums" / sample.path.name
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".npz":
        with np.load(sample.path) as data:
            np.savez(path, **{name: data[name] for name in data.files if not name.startswith("_")})
    elif path.suffix == ".json":
        kept = json.loads(sample.path.read_text())
        path.write_text(json.dumps({name: value for name, value in kept.items() if not name.startswith("_")}))
        for other in sample.path.parent.glob(f"{path.stem}.safetensors"):
            shutil.copy(other, path.parent)
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
    study.run()
    key = str(json.loads((study.folder / "study.json").read_text())["about"]["id"])
    unit = min((study.folder / "units").glob("*.npz"))
    rollouts = min((study.folder / "rollouts").glob("*.npz"))
    recorded = min((study.folder / "unguided").glob("*.npz"))
    balance = _cartpole_study(folder / "cartpole")
    older = folder / "older"
    shutil.copytree(balance, older)
    kept = json.loads((older / "study.json").read_text())
    text = json.dumps({name: value for name, value in kept.items() if not name.startswith("_")}, indent=1)
    (older / "study.json").write_text(text)
    others = folder / "others"
    others.mkdir()
    origin = {"name": "another", "rules": ["+Left <- left", "-Right <- right & luck > 0.5"], "steps": 100}
    write_json(others / "rules-from.json", {"origins": [origin]}, key)
    entry = {"name": "Another", "source": "another.zip", "fingerprint": "0123"}
    write_json(others / "others.json", {"others": [entry]}, key)
    record = folder / "record.json.gz"
    save_record({"study": kept, "numbers": [0.5, 1.5], "rules": ["+Left <- left"]}, record)
    return [
        Sample("policy", policy, load_policy),
        Sample("guided policy", study.folder / "guided.safetensors", load_policy),
        Sample("experiences", study.folder / "experiences.npz", lambda path: Experiences.load(path, key)),
        Sample("mining", study.folder / "mining.npz", lambda path: Mining.load(path, key)),
        Sample("unit", unit, _unit),
        Sample("composition", study.folder / "composition.json", lambda path: read_json(path, key)),
        *(
            Sample(name, study.folder / STEPS[name].file, partial(_step, study, name))
            for name in ("generalisations", "evaluation", "improvement", "references", "explanations")
        ),
        Sample("study.json", balance / "study.json", lambda path: StudyFolder(path.parent).read()),
        Sample("names.json", balance / "names.json", _names_of_study),
        Sample("study.json without checksum", older / "study.json", _open_study, is_checked=False),
        Sample("record", record, load_record),
        Sample("confirmed rules", study.folder / "confirmed.json", lambda path: _rules_in(path.parent)),
        Sample("searched rules", study.folder / "searched.json", lambda path: _searched(path, key)),
        Sample("rules of others", others / "rules-from.json", lambda path: _rules_of_others(path, key)),
        Sample("other policies", others / "others.json", lambda path: _other_policies(path, key)),
        Sample("mistakes", study.folder / "mistakes.json", lambda path: Mistakes.load(path, key)),
        Sample("decisions", study.folder / "mistakes.npz", lambda path: Experiences.load(path, key)),
        Sample("recorded unit", recorded, lambda path: UnitFiles(path.parent, RecordedEpisodes)[path.stem]),
        Sample("rollouts", rollouts, lambda path: UnitFiles(path.parent, Rollouts)[path.stem]),
        *_guided_samples(folder, policy),
        *_mended_samples(folder, balance),
    ]


def _unit(path: Path) -> UnitResult:
    """Read the results of a unit and compute what the stages compute from them."""
    result = UnitFiles(path.parent, UnitResult)[path.stem]
    UnitSample.of(result)
    UnitResult.concatenate([result, result]).with_episodes(np.arange(len(result)), result)
    return result


def _step(study: Study, name: str, path: Path) -> Any:
    """Read the result of a step and show it as ``legible show`` does."""
    result = STEPS[name].load(study, path)
    before = study.read(name)
    study._results[name] = result
    try:
        for section in _SECTIONS_OF[name]:
            SECTIONS[section].to_data(study)
    finally:
        study._results[name] = before
    return result


_SECTIONS_OF = {
    "generalisations": ("rules",),
    "evaluation": ("verdict", "weaknesses", "rules"),
    "improvement": ("verdict", "composition"),
    "references": ("verdict",),
    "explanations": ("verdict", "weaknesses"),
}


def _guided_samples(folder: Path, network: Path) -> list[Sample]:
    """Make guided policies whose rules have a memory, or read the info of the environment."""
    import mirror_world

    policy = load_policy(network)
    memory = FeatureSpace.from_dict({**mirror_world.SPACE.to_dict(), "derived": {"before": "last_action"}})
    guided = folder / "memory.safetensors"
    GuidedPolicy(policy, [parse_rule("+Left <- left & before = 1", memory)], memory).save(guided)
    wind = FeatureSpace.of(["wind"], ["Left", "Right", "Stay"])
    features = FeatureMap(wind, InfoReader(("wind",)), gymnasium.spaces.Box(-1.0, 1.0, (5,), np.float32))
    informed = folder / "informed.safetensors"
    GuidedPolicy(policy, [parse_rule("+Left <- wind > 0.5", wind)], wind, features=features).save(informed)
    return [
        Sample("guided policy with a memory", guided, load_policy),
        Sample("guided policy with features", informed, load_policy),
    ]


def _mended_samples(folder: Path, study: Path) -> list[Sample]:
    """Make the files of mending and distilling: the state of a mending, networks with figures, rounds."""
    place = folder / "mended"
    shutil.copytree(study, place / "round-1")
    settings = dataclasses.asdict(DistillationSettings())
    write_json(place / "mend.json", {"seed": 0, "distillation": settings, "asked": 3})
    network = place / "network-1.safetensors"
    write_network(load_policy(study / "policy.safetensors"), network)  # type: ignore[arg-type]
    figures = {"kept": 0.9, "steps": 1000, "differences": {"distilled": {"mean": {"low": 0.5}}}}
    write_json(network.with_suffix(".json"), figures, sha256_of(network))
    checkpoint = DistillationCheckpoint(place / "distilling", "some key")
    weights = [np.ones((2, 4), np.float32), np.zeros(2, np.float32)]
    checkpoint.save_round(1, SavedRound(weights, (weights, weights), np.arange(3.0), 0.9, 100))
    older = folder / "mended before"
    shutil.copytree(place, older)
    (older / "mend.json").write_text(json.dumps({"seed": 0, "distillation": settings, "asked": 3}))
    return [
        Sample("mend.json", place / "mend.json", lambda path: read_mending(path.parent)),
        Sample("mend.json without checksum", older / "mend.json", lambda p: read_mending(p.parent), is_checked=False),
        Sample("distilled network", network, load_policy),
        Sample("figures of a network", network.with_suffix(".json"), _figures),
        Sample("checkpoint of a distillation", place / "distilling" / "round-001.npz", _rounds),
    ]


def _figures(path: Path) -> Any:
    return _read_figures(path, sha256_of(path.with_suffix(".safetensors")))


def _searched(path: Path, key: str) -> Any:
    kept = KeptSearch(SimpleNamespace(folder=path.parent, key=key))  # type: ignore[arg-type]
    (proposal,) = kept.source(lambda: iter(()))  # type: ignore[arg-type,return-value]
    return kept.counts(), proposal


def _rules_of_others(path: Path, key: str) -> Any:
    import mirror_world

    study: Any = SimpleNamespace(space=mirror_world.SPACE, read=lambda _: read_others(path, key))
    others = OtherRules(study, FoundOrigins((Origin("another"),), {}, ()), load_policy_for)
    return others.rules(), others.steps()


def _other_policies(path: Path, key: str) -> Any:
    study: Any = SimpleNamespace(folder=path.parent, key=key)
    return OtherPolicies(study, load_policy_for).sources


def _rounds(path: Path) -> Any:
    (found,) = DistillationCheckpoint(path.parent, "some key").rounds()
    return found


def _cartpole_study(folder: Path) -> Path:
    """Make a study of an environment that opens without trust, with names, and play nothing."""
    torch.manual_seed(0)
    policy = load_policy(torch.nn.Sequential(torch.nn.Linear(4, 2)), output="values", n_features=4, n_actions=2)
    names = FeatureSpace.of(["x", "speed", "angle", "turning"], ["Left", "Right"])
    save_policy(policy, folder.with_suffix(".safetensors"))
    Study(folder, EnvironmentSpec("CartPole-v1"), folder.with_suffix(".safetensors"), names=names, relations="none")
    return folder


def _names_of_study(path: Path) -> FeatureSpace:
    study = StudyFolder(path.parent)
    study.check_files(study.read())
    return read_kept_names(path)


def _open_study(path: Path) -> Any:
    study = Study.open(path.parent, engine=InProcess())
    return study.seed, study.settings, study.environment


def _policy_samples(folder: Path) -> list[Sample]:
    from stable_baselines3 import DQN, PPO, SAC
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    env = VecNormalize(DummyVecEnv([lambda: gymnasium.make("CartPole-v1")]))
    env.save(str(folder / "vecnormalize.pkl"))
    (folder / "zips").mkdir()
    small: dict[str, Any] = {"policy_kwargs": {"net_arch": [6]}, "device": "cpu", "seed": 0}
    PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, **small).save(folder / "zips" / "ppo.zip")
    DQN("MlpPolicy", "CartPole-v1", buffer_size=8, **small).save(folder / "zips" / "dqn.zip")
    own = {**small, "policy_kwargs": {"net_arch": [6]}}  # SAC writes into it
    SAC("MlpPolicy", "Pendulum-v1", buffer_size=8, **own).save(folder / "zips" / "sac.zip")
    actor = save_policy(load_policy(folder / "zips" / "sac.zip"), folder / "actor.safetensors")
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
    torch.save(net.state_dict(), folder / "tensors.pth")
    (folder / "tensors.toml").write_text(_ARCHITECTURE)
    statistics = Normalisation(np.arange(4.0), np.ones(4), 1e-8, 10.0)
    numbers, text = (save_normalisation(statistics, folder / f"statistics{end}") for end in (".npz", ".toml"))
    return [
        Sample("PPO zip", folder / "zips" / "ppo.zip", load_policy, is_checked=False),
        Sample("DQN zip", folder / "zips" / "dqn.zip", load_policy, is_checked=False),
        Sample("SAC zip", folder / "zips" / "sac.zip", _actions, is_checked=False),
        Sample("policy of continuous actions", actor, _actions),
        Sample("VecNormalize", folder / "vecnormalize.pkl", load_normalisation, is_checked=False),
        Sample("tensors of PyTorch", folder / "tensors.pth", load_policy, is_checked=False),
        Sample("architecture", folder / "tensors.toml", _policy_of_architecture, is_checked=False),
        Sample("statistics as npz", numbers, load_normalisation),
        Sample("statistics as TOML", text, load_normalisation, is_checked=False),
        *_foreign_samples(folder, net),
        *_zoo_samples(folder, small),
        *_training_samples(folder),
    ]


def _foreign_samples(folder: Path, net: torch.nn.Module) -> list[Sample]:
    """Make policies of other libraries: CleanRL, ONNX, TorchScript."""
    state = net.state_dict()
    torch.save({f"network.{name}": tensor for name, tensor in state.items()}, folder / "dqn.cleanrl_model")
    actor = {f"actor_mean.{name}": tensor for name, tensor in state.items()}
    torch.save({**actor, "actor_logstd": torch.zeros(1, 2)}, folder / "ppo.cleanrl_model")
    write_onnx(net, folder / "graph.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(net).save(folder / "program.pt")  # type: ignore[no-untyped-call]
    return [
        Sample("CleanRL's DQN", folder / "dqn.cleanrl_model", load_policy, is_checked=False),
        Sample("CleanRL's PPO", folder / "ppo.cleanrl_model", load_policy, is_checked=False),
        Sample("ONNX", folder / "graph.onnx", _graph, is_checked=False),
        Sample("RLlib's tensors", _RLLIB / MODULES / "default_policy" / STATE, _module, is_checked=False),
        Sample("RLlib's settings", _RLLIB / MODULES / "default_policy" / ARGUMENTS, _module, is_checked=False),
        Sample("RLlib's filter", _RLLIB / FILTERS / "MeanStdFilter" / "state.pkl", read_filter, is_checked=False),
        Sample("RLlib's connectors", _RLLIB / FILTERS / ARGUMENTS, _connectors, is_checked=False),
        *(
            Sample(name.partition("/")[0], _FIXTURES / name, partial(load_policy, activation="elu"), is_checked=False)
            for name in ("rsl_rl/new.pt", "skrl/gaussian.pt", "rl_games/continuous.pth")
        ),
        Sample("TorchScript without permission", folder / "program.pt", _refused_program, is_checked=False),
    ]


def _module(path: Path) -> Any:
    return load_policy(path.parent)


def _connectors(path: Path) -> Any:
    return filter_in(path.parent)


def write_onnx(net: torch.nn.Module, path: Path) -> None:
    """Write two linear layers with a ReLU between them as a graph of ONNX."""
    import onnx
    from onnx import helper, numpy_helper

    names = ("0.weight", "0.bias", "2.weight", "2.bias")
    tensors = [numpy_helper.from_array(net.state_dict()[name].numpy(), name) for name in names]
    nodes = [
        helper.make_node("Gemm", ["observations", "0.weight", "0.bias"], ["hidden"], transB=1),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("Gemm", ["active", "2.weight", "2.bias"], ["q_values"], transB=1),
    ]
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", width])
        for name, width in (("observations", 4), ("q_values", 2))
    ]
    graph = helper.make_graph(nodes, "policy", ends[:1], ends[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def _graph(path: Path) -> Any:
    """Return the outputs of the graph of a file for some observations."""
    policy = load_policy(path)
    return policy.scores(np.zeros((3, policy.n_features or 4), np.float32))


def _refused_program(path: Path) -> Any:
    """Read a program without permission: it is recognised, or refused as damaged, and never opened."""
    try:
        policy = load_policy(path, output="values", n_features=4, allow_code=True)
    except PolicyError as error:
        if "is a program" in str(error):
            return "a program"
        raise
    raise AssertionError(f"a program without permission became {policy}")


def _zoo_samples(folder: Path, small: dict[str, Any]) -> list[Sample]:
    """Make the two files of a folder of the RL Zoo that describe the environment."""
    from stable_baselines3 import PPO

    place = folder / "CartPole-v1_1"
    place.mkdir()
    env = gymnasium.wrappers.FrameStackObservation(gymnasium.make("CartPole-v1"), 2)
    PPO("MlpPolicy", env, n_steps=8, batch_size=8, **small).save(place / "CartPole-v1.zip")
    (place / "config.yml").write_text(_CONFIG)
    (place / "args.yml").write_text(_ARGS)
    return [
        Sample(f"the RL Zoo's {name}", place / f"{name}.yml", _zoo_environment, is_checked=False)
        for name in ("config", "args")
    ]


def _zoo_environment(path: Path) -> Any:
    """Make the environment that the files of a folder describe."""
    policy = load_policy(path.parent)
    spec = environment_for(policy, EnvironmentSpec("CartPole-v1"))
    spec.make().close()
    return spec.wrappers, dict(spec.arguments)


def _training_samples(folder: Path) -> list[Sample]:
    """Make checkpoints of a fleet."""
    from lab.fleet.checkpoint import load_checkpoint, save_checkpoint
    from lab.fleet.plan import FleetPlan, make_fleet
    from legible.training import DqnSettings

    settings = DqnSettings(hidden=(6,), n_envs=1, buffer_size=20, batch_size=4, learning_starts=4)
    fleet = make_fleet(FleetPlan((EnvironmentSpec("legible/PacmanSmall-v0"),), (0,), settings, 12))
    fleet.learn()
    full, light = (save_checkpoint(fleet, folder / "fleet" / "fleet", full=full)[0] for full in (True, False))

    def go_on(path: Path) -> Any:
        load_checkpoint(fleet, path.with_name("fleet"))
        tensors = fleet.tensors(with_replay="full" in path.name)
        return fleet.counters(), {name: tensor.numpy() for name, tensor in tensors.items()}

    return [
        Sample("full checkpoint", full, go_on),
        Sample("light checkpoint", light, go_on),
    ]


def _actions(path: Path) -> Any:
    """Return the actions of a policy with continuous actions."""
    policy: Any = load_policy(path)
    shape = (2, *policy.observation_space.shape)
    return policy.predict(np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape))[0], policy.metadata


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
        "derived.toml": _DERIVED,
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
        Sample("derived names", folder / "derived.toml", _derived, is_checked=False),
        Sample("settings", folder / "settings.toml", StudySettings.from_toml, is_checked=False),
        Sample("rules", folder / "rules.txt", lambda path: _rules(path, space), is_checked=False),
        Sample("maze", folder / "small.lay", load_maze, is_checked=False),
    ]


def _derived(path: Path) -> Any:
    """Read a names file and compute its derived features in two steps of an episode."""
    space = FeatureSpace.from_toml(path)
    if space.derived is None:
        return space
    memory = space.derived.new_memory(1)
    rows = np.linspace(-1, 1, 2 * space.n_own, dtype=np.float32).reshape(2, 1, space.n_own)
    return space, [space.derived.compute(row, memory, np.array([i == 0])) for i, row in enumerate(rows)]


def _rules(path: Path, space: FeatureSpace) -> list[Any]:
    return [parse_rule(line, space) for line in read_text(path).splitlines()]


def plain(value: Any) -> Any:
    """Return a value as plain data that can be compared to the bit."""
    if isinstance(value, GuidedPolicy):
        return plain([value.policy, value.rules, value.space, value.precedence, value.enforce, value.features])
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return repr(value)
