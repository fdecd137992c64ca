"""Actions of every algorithm of Stable-Baselines3 and sb3-contrib, read from a zip, are those of its ``predict``."""

import base64
import collections
import itertools
import pickle
import sys
import types

import numpy as np
import pytest
import sb3_contrib
import stable_baselines3
import torch
from gymnasium import spaces

from legible.policies import ActingPolicy, NetworkPolicy, Policy, PolicyError, load_policy
from legible.policies.actors.policy import ActorPolicy
from policies.conftest import Bomb, SpaceEnv, make_env, rewrite_data, rewrite_zip, sb3_scores, try_mangled_data

N_STATES = 1000

BOX = spaces.Box(-3.0, 3.0, (4,))
PICTURE = spaces.Box(0, 255, (36, 36, 2), dtype=np.uint8)
GOAL = spaces.Dict(
    {
        "observation": spaces.Box(-3.0, 3.0, (4,)),
        "achieved_goal": spaces.Box(-3.0, 3.0, (2,), dtype=np.float64),
        "desired_goal": spaces.Box(-3.0, 3.0, (2,), dtype=np.float64),
    }
)
MIXED = spaces.Dict({"picture": PICTURE, "number": spaces.Discrete(3), "switches": spaces.MultiBinary(2), "box": BOX})
OBSERVATIONS = {
    "box": BOX,
    "matrix": spaces.Box(-3.0, 3.0, (2, 3)),
    "discrete": spaces.Discrete(5),
    "multi-discrete": spaces.MultiDiscrete([3, 2, 4]),
    "multi-binary": spaces.MultiBinary(4),
    "picture": PICTURE,
    "goal": GOAL,
    "mixed": MIXED,
}
ACTIONS = {
    "discrete": spaces.Discrete(3),
    "multi-discrete": spaces.MultiDiscrete([3, 2, 4]),
    "multi-binary": spaces.MultiBinary(3),
    "box": spaces.Box(np.array([-1.0, -0.123456789, 0.001234567], np.float32), np.array([2.0, 7.0, 3.3], np.float32)),
}
VALUES = ("DQN", "QRDQN")
ACTOR_CRITIC = ("PPO", "A2C", "TRPO", "RecurrentPPO")
CONTINUOUS = ("SAC", "TD3", "DDPG", "TQC", "CrossQ")


def algorithm_class(name):
    return getattr(stable_baselines3, name, None) or getattr(sb3_contrib, name)


def policy_name(algorithm, observation_space):
    if isinstance(observation_space, spaces.Dict):
        kind = "MultiInput"
    elif observation_space is PICTURE:
        kind = "Cnn"
    else:
        kind = "Mlp"
    return f"{kind}{'Lstm' if algorithm == 'RecurrentPPO' else ''}Policy"


def make(algorithm, observation_space, action_space, policy=None, env=None, **settings):
    """Return a model whose weights are large enough that every layer matters."""
    if algorithm in (*VALUES, *CONTINUOUS):
        settings = {"buffer_size": 8, **settings}
    if algorithm == "RecurrentPPO":
        settings = {"policy_kwargs": {"lstm_hidden_size": 8}, **settings}
    if algorithm == "ARS":
        policy = policy or "LinearPolicy"
    model = algorithm_class(algorithm)(
        policy or policy_name(algorithm, observation_space),
        env or make_env(observation_space, action_space),
        device="cpu",
        seed=0,
        **settings,
    )
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, tensor in model.policy.named_parameters():
            size = 0.05 if tensor.ndim == 4 or tensor.numel() > 5000 else 0.6
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * size)
            if "log_std" in name and tensor.ndim == 1:
                tensor.fill_(-1.0)
        for name, buffer in model.policy.named_buffers():
            if name.endswith(("ra_mean", "ra_var")):
                buffer.copy_(torch.rand(buffer.shape, generator=generator) + 0.2)
    return model


def states(space, n=N_STATES):
    space.seed(3)
    drawn = [space.sample() for _ in range(n)]
    if isinstance(space, spaces.Dict):
        return {key: _varied(np.array([state[key] for state in drawn])) for key in space.spaces}
    return _varied(np.array(drawn))


def _varied(rows):
    """Pictures of noise all look the same to a network: make some darker, and some channels darker than others."""
    if rows.ndim != 4:
        return rows
    light = np.random.default_rng(0).random((len(rows), 1, 1, rows.shape[-1])) ** 2
    return (rows * light).astype(np.uint8)


def saved_in(folder, model):
    model.save(folder / "model.zip")
    return folder / "model.zip"


def one_of(batch, number):
    return {key: rows[number] for key, rows in batch.items()} if isinstance(batch, dict) else batch[number]


def assert_same_actions(model, policy, observation_space, n=N_STATES, **arguments):
    batch = states(observation_space, n)
    expected, _ = model.predict(batch, deterministic=True, **arguments)
    actions, _ = policy.predict(batch, **arguments)
    assert actions.shape == expected.shape
    np.testing.assert_allclose(actions, expected, rtol=1e-6, atol=1e-6)
    single, _ = policy.predict(one_of(batch, 7), **{key: value[7] for key, value in arguments.items()})
    assert single.shape == expected[7].shape
    np.testing.assert_allclose(single, expected[7], rtol=1e-4, atol=1e-4)
    if isinstance(policy, ActorPolicy | NetworkPolicy) and policy.kind != "none" and not arguments:
        theirs = sb3_scores(model, batch)
        rows = batch.reshape(n, -1).astype(np.float32) if isinstance(policy, NetworkPolicy) else batch
        np.testing.assert_allclose(policy.scores(rows), theirs, rtol=1e-4, atol=1e-5)
        assert theirs.std(axis=0).max() > 1e-3  # the comparison is not of constants
    elif n >= 100:
        assert np.asarray(expected, float).std(axis=0).max() > 0


def check(tmp_path, model, observation_space, n=N_STATES, **arguments):
    policy = load_policy(saved_in(tmp_path, model))
    assert isinstance(policy, ActingPolicy)
    assert policy.action_space == model.action_space or policy.action_space.shape == model.action_space.shape
    assert_same_actions(model, policy, observation_space, n, **arguments)
    assert_same_actions(model, pickle.loads(pickle.dumps(policy)), observation_space, 20, **arguments)
    assert_same_actions(model, load_policy(model), observation_space, 20, **arguments)
    return policy


class TestActionsAreThoseOfStableBaselines3:
    @pytest.mark.parametrize("actions", ACTIONS)
    @pytest.mark.parametrize("algorithm", ACTOR_CRITIC)
    def test_actor_critic(self, tmp_path, algorithm, actions):
        model = make(algorithm, BOX, ACTIONS[actions])
        policy = check(tmp_path, model, BOX)
        assert policy.stochastic
        assert policy.recurrent == (algorithm == "RecurrentPPO")
        assert policy.action_space == ACTIONS[actions]
        assert policy.metadata["algorithm"] == algorithm

    @pytest.mark.parametrize("observations", OBSERVATIONS)
    @pytest.mark.parametrize(("algorithm", "actions"), [("PPO", "box"), ("DQN", "discrete"), ("QRDQN", "discrete")])
    def test_every_observation(self, tmp_path, algorithm, observations, actions):
        space = OBSERVATIONS[observations]
        n = 100 if observations in ("picture", "mixed") else N_STATES
        policy = check(tmp_path, make(algorithm, space, ACTIONS[actions]), space, n)
        assert isinstance(policy, Policy)
        assert isinstance(policy, NetworkPolicy) == (
            actions == "discrete" and observations not in ("picture", "goal", "mixed")
        )

    @pytest.mark.parametrize("observations", ["box", "goal", "picture"])
    @pytest.mark.parametrize("algorithm", CONTINUOUS)
    def test_continuous(self, tmp_path, algorithm, observations):
        if algorithm == "CrossQ" and observations != "box":
            pytest.skip("CrossQ has an MLP policy only")
        space = OBSERVATIONS[observations]
        policy = check(
            tmp_path, make(algorithm, space, ACTIONS["box"]), space, 100 if observations == "picture" else N_STATES
        )
        assert policy.stochastic == (algorithm not in ("TD3", "DDPG"))
        assert policy.kind == "none"
        assert policy.metadata["algorithm"] == algorithm
        with pytest.raises(PolicyError, match="no score for every action"):
            policy.scores(np.zeros((1, 4), np.float32))

    @pytest.mark.parametrize(
        ("policy", "actions", "options"),
        [
            ("LinearPolicy", "discrete", {}),
            ("MlpPolicy", "discrete", {}),
            ("MlpPolicy", "box", {}),
            ("LinearPolicy", "box", {}),
            ("LinearPolicy", "box", {"with_bias": True}),
            ("LinearPolicy", "box", {"squash_output": True}),
            ("LinearPolicy", "box", {"squash_output": False}),
        ],
    )
    def test_ars(self, tmp_path, policy, actions, options):
        read = check(tmp_path, make("ARS", BOX, ACTIONS[actions], policy, policy_kwargs=options), BOX)
        assert not read.stochastic
        assert read.metadata["algorithm"] == "ARS"

    @pytest.mark.parametrize("actions", ["discrete", "box"])
    def test_linear_ars_of_early_releases(self, tmp_path, actions):
        model = make("ARS", BOX, ACTIONS[actions], "LinearPolicy")
        model.policy.action_net = model.policy.action_net[0]  # a layer, where later releases have a sequence
        model.save(tmp_path / "model.zip")
        policy = load_policy(tmp_path / "model.zip")
        assert_same_actions(model, policy, BOX)
        assert policy.action_space.shape == model.action_space.shape

    @pytest.mark.parametrize(
        ("algorithm", "options", "settings"),
        [
            *[(name, {}, {"use_sde": True}) for name in ("PPO", "A2C", "SAC", "TQC")],
            *[(name, {"use_expln": True}, {"use_sde": True}) for name in ("PPO", "SAC", "TQC")],
            ("PPO", {"full_std": False}, {"use_sde": True}),
            ("A2C", {"squash_output": True}, {"use_sde": True}),
            ("PPO", {"squash_output": True, "full_std": False}, {"use_sde": True}),
            ("SAC", {"clip_mean": 0.0}, {"use_sde": True}),
            ("SAC", {"clip_mean": 0.5}, {"use_sde": True}),
            ("CrossQ", {"batch_norm_eps": 0.1}, {}),
            ("CrossQ", {"batch_norm": False}, {}),
            ("CrossQ", {"net_arch": [7, 5], "activation_fn": torch.nn.ELU}, {}),
            ("SAC", {"net_arch": {"pi": [], "qf": [5]}}, {}),
            ("TD3", {"net_arch": [], "n_critics": 3}, {}),
            ("TD3", {"activation_fn": torch.nn.Tanh, "net_arch": [9]}, {}),
            ("PPO", {"share_features_extractor": False, "net_arch": {"pi": [5], "vf": [6]}}, {}),
            ("RecurrentPPO", {"lstm_hidden_size": 6, "n_lstm_layers": 2, "enable_critic_lstm": False}, {}),
            ("RecurrentPPO", {"lstm_hidden_size": 6, "shared_lstm": True, "enable_critic_lstm": False}, {}),
        ],
        ids=str,
    )
    def test_options(self, tmp_path, algorithm, options, settings):
        check(tmp_path, make(algorithm, BOX, ACTIONS["box"], policy_kwargs=options, **settings), BOX)

    @pytest.mark.parametrize(
        ("policy", "options"),
        [
            ("CnnPolicy", {"normalize_images": False}),
            ("CnnPolicy", {"features_extractor_kwargs": {"features_dim": 7}}),
            ("MlpPolicy", {}),
        ],
    )
    def test_options_of_pictures(self, tmp_path, policy, options):
        check(tmp_path, make("PPO", PICTURE, ACTIONS["discrete"], policy, policy_kwargs=options), PICTURE, 100)

    @pytest.mark.parametrize(
        ("observations", "actions"),
        [*itertools.product(OBSERVATIONS, ["discrete", "multi-discrete"]), ("box", "multi-binary")],
    )
    def test_masks(self, tmp_path, observations, actions):
        space, n = OBSERVATIONS[observations], 100
        model = make("MaskablePPO", space, ACTIONS[actions])
        sizes = {"discrete": (3,), "multi-discrete": (3, 2, 4), "multi-binary": (2, 2, 2)}[actions]
        masks = np.random.default_rng(0).random((n, sum(sizes))) < 0.5
        for first, size in zip(np.cumsum([0, *sizes]), sizes, strict=False):
            masks[np.arange(n), first + np.arange(n) % size] = True  # none is always allowed
        policy = load_policy(saved_in(tmp_path, model))
        assert_same_actions(model, policy, space, n)
        assert_same_actions(model, policy, space, n, action_masks=masks)
        assert_same_actions(model, load_policy(model), space, n, action_masks=masks)
        taken, _ = policy.predict(states(space, n), deterministic=False, action_masks=masks)
        assert masks[np.arange(n), taken.reshape(n, -1)[:, 0].astype(int)].all()

    @pytest.mark.parametrize("observations", [name for name in OBSERVATIONS if name != "multi-discrete"])
    @pytest.mark.parametrize("actions", ["discrete", "box"])
    def test_memory(self, tmp_path, observations, actions):
        """The state is carried along and reset; PyTorch refuses sb3-contrib's LSTM for multi-discrete observations."""
        space = OBSERVATIONS[observations]
        model = make("RecurrentPPO", space, ACTIONS[actions])
        policy = check(tmp_path, model, space, 50)
        batch, state, reference = states(space, 30), None, None
        for step in range(10):
            starts = np.array([step == 0, step % 4 == 0, False])
            few = slice(3 * step, 3 * step + 3)
            rows = {key: each[few] for key, each in batch.items()} if isinstance(batch, dict) else batch[few]
            expected, reference = model.predict(rows, reference, starts, deterministic=True)
            actions_taken, state = policy.predict(rows, state, starts)
            np.testing.assert_allclose(actions_taken, expected, atol=1e-5)
            np.testing.assert_allclose(np.array(state), np.array(reference), atol=1e-5)
        with pytest.raises(PolicyError, match="it has memory"):
            policy.scores(rows)

    def test_masks_need_a_policy_that_knows_them(self, tmp_path):
        policy = load_policy(saved_in(tmp_path, make("PPO", BOX, ACTIONS["box"])))
        with pytest.raises(PolicyError, match="trained without masks"):
            policy.predict(states(BOX, 2), action_masks=np.ones((2, 3)))

    @pytest.mark.parametrize("space", [BOX, GOAL], ids=["box", "goal"])
    @pytest.mark.parametrize("algorithm", ["SAC", "PPO"])
    def test_behind_vec_normalize(self, tmp_path, algorithm, space):
        from stable_baselines3.common.vec_env import VecNormalize

        env = VecNormalize(make_env(space, ACTIONS["box"]))
        env.reset()
        generator = np.random.default_rng(0)
        for running in env.obs_rms.values() if isinstance(env.obs_rms, dict) else [env.obs_rms]:
            running.mean = generator.normal(size=running.mean.shape)
            running.var = generator.uniform(0.1, 3, running.var.shape)
        model = make(algorithm, space, None, env=env)
        model.save(tmp_path / "model.zip")
        env.save(tmp_path / "vecnormalize.pkl")
        batch = states(space)
        expected, _ = model.predict(env.normalize_obs(batch), deterministic=True)
        for policy in (load_policy(tmp_path / "model.zip"), load_policy(model)):
            np.testing.assert_allclose(policy.predict(batch)[0], expected, rtol=1e-6, atol=1e-6)


def gym_module(monkeypatch):
    """Put classes in place of old Gym's, which is not installed: they have the attributes that its spaces had."""
    made = {}
    for space in (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Dict):
        module_name, class_name = space.__module__.replace("gymnasium", "gym"), space.__name__
        module = types.ModuleType(module_name)
        made[class_name] = type(class_name, (), {"__module__": module_name})
        setattr(module, class_name, made[class_name])
        monkeypatch.setitem(sys.modules, module_name, module)
    for name in ("gym", "gym.spaces"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    return made


def old_space(space, classes):
    """Return a space as Gym 0.17 had it, for the pickle."""
    old = classes[type(space).__name__]()
    if isinstance(space, spaces.Dict):
        old.spaces = collections.OrderedDict((key, old_space(part, classes)) for key, part in space.spaces.items())
        old.shape, old.dtype = None, None
        return old
    names = {"Box": ("low", "high"), "Discrete": ("n",), "MultiDiscrete": ("nvec",), "MultiBinary": ("n",)}
    for name in names[type(space).__name__]:
        value = getattr(space, name)
        setattr(old, name, int(value) if name == "n" else value)
    old.shape, old.dtype = space.shape, space.dtype
    old.np_random = np.random.RandomState(0)
    return old


def as_1_0(path, model, classes):
    """Write a zip as Stable-Baselines3 1.0 did."""

    def change(data):
        for name in ("observation_space", "action_space"):
            old = old_space(getattr(model, name), classes)
            text = {key: value if isinstance(value, int | list) else str(value) for key, value in vars(old).items()}
            if old.shape is not None:
                text["shape"] = list(old.shape)
            serialised = base64.b64encode(pickle.dumps(old, protocol=4)).decode()
            data[name] = {":type:": str(type(old)), ":serialized:": serialised, **text}
        for name in ("_stats_window_size", "_last_episode_starts", "_last_original_obs"):
            data.pop(name, None)

    def drop(members):
        members["_stable_baselines3_version"] = b"1.0"
        members.pop("system_info.txt")

    rewrite_data(path, change)
    rewrite_zip(path, drop)


class TestZipsOf10:
    """Files that today's library cannot write: spaces of old Gym, in their own pickles."""

    @pytest.mark.parametrize(
        ("algorithm", "observations", "actions"),
        [
            ("DQN", "picture", "discrete"),
            ("DQN", "multi-binary", "discrete"),
            ("QRDQN", "box", "discrete"),
            ("PPO", "box", "box"),
            ("PPO", "discrete", "discrete"),
            ("PPO", "mixed", "multi-discrete"),
            ("A2C", "multi-discrete", "multi-binary"),
            ("TRPO", "box", "box"),
            ("SAC", "goal", "box"),
            ("TD3", "box", "box"),
            ("DDPG", "goal", "box"),
            ("TQC", "goal", "box"),
            ("CrossQ", "box", "box"),
            ("ARS", "box", "box"),
            ("MaskablePPO", "box", "discrete"),
            ("RecurrentPPO", "box", "box"),
        ],
    )
    def test_loading_and_20_episodes(self, tmp_path, monkeypatch, algorithm, observations, actions):
        space = OBSERVATIONS[observations]
        model = make(algorithm, space, ACTIONS[actions])
        path = saved_in(tmp_path, model)
        with monkeypatch.context() as patched:
            as_1_0(path, model, gym_module(patched))
        policy = load_policy(path)
        assert policy.metadata["stable_baselines3_version"] == "1.0"
        assert_same_actions(model, policy, space, 100)
        env = SpaceEnv(space, ACTIONS[actions])
        for seed in range(20):
            observation, _ = env.reset(seed=seed)
            state, over, start = None, False, True
            while not over:
                action, state = policy.predict(observation, state, np.array([start]))
                assert env.action_space.contains(action)
                observation, _, over, _, _ = env.step(action)
                start = False

    @pytest.mark.parametrize("algorithm", ["SAC", "PPO"])
    def test_poisoned_spaces_run_nothing(self, tmp_path, algorithm):
        """Bounds then come from the text, as exact as it is."""
        model = make(algorithm, BOX, ACTIONS["box"])
        path = saved_in(tmp_path, model)

        def plant(data):
            for name in ("observation_space", "action_space"):
                data[name][":serialized:"] = base64.b64encode(pickle.dumps(Bomb(tmp_path / "exploded"))).decode()

        rewrite_data(path, plant)
        batch = states(BOX)
        np.testing.assert_allclose(
            load_policy(path).predict(batch)[0], model.predict(batch, deterministic=True)[0], atol=1e-6
        )
        assert not (tmp_path / "exploded").exists()

    def test_poisoned_dictionaries_are_refused(self, tmp_path, raises_saved):
        path = saved_in(tmp_path, make("SAC", GOAL, ACTIONS["box"]))
        rewrite_data(path, lambda data: data["observation_space"].update({":serialized:": "nonsense"}))
        with raises_saved(PolicyError):
            load_policy(path)

    def test_tensors_that_do_not_fit_the_spaces(self, tmp_path):
        path = saved_in(tmp_path, make("SAC", BOX, ACTIONS["box"]))
        rewrite_data(path, lambda data: data["observation_space"].update(_shape=[5]))
        with pytest.raises(PolicyError, match=r"policy\.pth do not fit"):
            load_policy(path)


class TestSampledActions:
    """Drawn actions are those of Stable-Baselines3 in distribution."""

    def moments(self, policy, state, **settings):
        batch = np.repeat(np.asarray(state)[None], 4000, axis=0)
        torch.manual_seed(0)
        actions = np.asarray(policy.predict(batch, deterministic=False, **settings)[0], float).reshape(4000, -1)
        return actions.mean(axis=0), actions.std(axis=0)

    @pytest.mark.parametrize(
        ("algorithm", "actions"),
        [("PPO", "box"), ("PPO", "multi-discrete"), ("PPO", "multi-binary"), ("A2C", "discrete"), ("SAC", "box")],
    )
    def test_moments(self, tmp_path, algorithm, actions):
        model = make(algorithm, BOX, ACTIONS[actions])
        with torch.no_grad():
            for tensor in model.policy.parameters():
                tensor.mul_(0.3)
        policy = load_policy(saved_in(tmp_path, model))
        state = states(BOX, 1)[0]
        for ours, theirs in zip(self.moments(policy, state), self.moments(model, state), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=0.1)
        rows = np.repeat(state[None], 50, axis=0)
        drawn = [policy.predict(rows, deterministic=False, rng=np.random.default_rng(5))[0] for _ in range(2)]
        np.testing.assert_array_equal(*drawn)

    @pytest.mark.parametrize("algorithm", ["PPO", "SAC"])
    def test_gsde(self, tmp_path, algorithm):
        """Stable-Baselines3 draws one matrix of noise at a time: over many of them the spread is the same."""
        model = make(algorithm, BOX, ACTIONS["box"], use_sde=True, policy_kwargs={"log_std_init": -2})
        with torch.no_grad():
            for name, tensor in model.policy.named_parameters():
                tensor.copy_(torch.full_like(tensor, -2.5) if "log_std" in name else tensor * 0.1)
        model.save(tmp_path / "model.zip")
        state = states(BOX, 1)
        ours = self.moments(load_policy(tmp_path / "model.zip"), state[0])
        drawn = []
        for _ in range(2000):
            (model.policy if algorithm == "PPO" else model.policy.actor).reset_noise()
            drawn.append(model.predict(state, deterministic=False)[0][0])
        np.testing.assert_allclose(ours[0], np.mean(drawn, axis=0), atol=0.1)
        np.testing.assert_allclose(ours[1], np.std(drawn, axis=0), rtol=0.15, atol=0.02)


def test_a_policy_reads_what_its_environment_gives(tmp_path):
    """Channels last or first, flat or not."""
    policy = load_policy(saved_in(tmp_path, make("DQN", PICTURE, ACTIONS["discrete"])))
    assert isinstance(policy, ActorPolicy)
    last = states(PICTURE, 12)
    first = np.moveaxis(last, -1, 1)
    expected = policy.predict(last)[0]
    np.testing.assert_array_equal(policy.predict(first)[0], expected)
    np.testing.assert_array_equal(policy.scores(first.reshape(12, -1)).argmax(axis=1), expected)
    for wrong in (np.zeros((3, 3)), np.zeros((1, 36, 36, 3))):
        with pytest.raises(PolicyError, match="reads observations of shape"):
            policy.predict(wrong)


@pytest.mark.parametrize("algorithm", ["SAC", "PPO"])
def test_whatever_the_data_says_there_is_a_policy_or_an_error_for_people(tmp_path_factory, algorithm):
    folder = tmp_path_factory.mktemp("fuzz")
    options = {"net_arch": [4], "use_expln": True}
    model = make(algorithm, GOAL, ACTIONS["box"], policy_kwargs=options, use_sde=True)
    model.save(folder / "original.zip")
    read = {"policy_class", "policy_kwargs", "observation_space", "action_space", "use_sde", "target_entropy"}

    def check(policy):
        assert policy.action_space.shape == (3,)

    try_mangled_data(folder / "original.zip", read, 150, check)
