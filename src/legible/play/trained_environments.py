"""The environment as a policy was trained in it.

- `environment_for`: an environment with the arguments, wrappers and stacked frames that the policy's files tell of.

What files tell is data: wrappers are taken from a table of known names, and nothing else that a file names is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from legible.environments import (
    KNOWN_WRAPPERS,
    NO_WRAPPERS,
    Env,
    EnvironmentSpec,
    UnfitEnvironmentError,
    known_name,
    parse_wrapper,
    refuse_named_code,
    with_features,
    wrapper_text,
)
from legible.policies import Policy
from legible.policies.rl_zoo import ENVIRONMENT_NEEDS

_LONGEST_NAME = 100
_E = TypeVar("_E", bound="EnvironmentSpec | Env")


def environment_for(policy: Policy | None, environment: _E) -> _E:
    """Return an environment as the policy was trained in it, where its files say how; else as it is.

    Arguments that were given stay. A wrapper that was given takes the place of the one of the same name; others come
    around those of the files, but below stacked frames. Wrappers that are there already are not put there again, and
    with `legible.environments.spec.NO_WRAPPERS` among them there is none of the files. For a guided policy whose rules
    see other features than the observation, the environment shows those. An environment object is returned as it is.

    Parameters
    ----------
    policy
        The policy, as `legible.policies.load_policy` gives it; one with rules, too.
    environment
        The environment.

    Raises
    ------
    UnfitEnvironmentError
        When the files name a wrapper that is not known and was not given.

    Examples
    --------
    >>> from legible.policies import FunctionPolicy
    >>> said = {"wrappers": [["rl_zoo3.wrappers.FrameSkip", {"skip": 2}]], "frame_stack": 4}
    >>> policy = FunctionPolicy(abs, "values", 2, metadata={"environment_needs": said})
    >>> environment_for(policy, EnvironmentSpec("CartPole-v1")).wrappers
    ('FrameSkip(skip=2)', 'VecFrameStack(n_stack=4)')
    """
    if not isinstance(environment, EnvironmentSpec):
        return environment
    # Of a guided policy, the files of the network inside.
    metadata = getattr(getattr(policy, "network", policy), "metadata", None)
    said = metadata.get(ENVIRONMENT_NEEDS) if isinstance(metadata, Mapping) else None
    spec: EnvironmentSpec = environment
    if isinstance(said, Mapping):
        given = said.get("env_arguments")
        arguments = {str(key): value for key, value in given.items()} if isinstance(given, Mapping) else {}
        arguments.pop("render_mode", None)
        refuse_named_code(EnvironmentSpec("", arguments), "the files of the policy", trust=False)
        spec = replace(spec, arguments={**arguments, **spec.arguments}, wrappers=_wrappers(said, spec.wrappers))
    features = getattr(policy, "features", None) if getattr(policy, "reads_rows", False) else None
    return cast("_E", spec if features is None else with_features(spec, features))


def _wrappers(said: Mapping[str, Any], given: Sequence[str]) -> tuple[str, ...]:
    if NO_WRAPPERS in given:
        return tuple(given)
    left = list(given)
    try:
        pairs = [(str(name), dict(arguments)) for name, arguments in said.get("wrappers") or ()]
    except (TypeError, ValueError) as error:
        raise UnfitEnvironmentError("the wrappers that the policy's file tells of cannot be read.") from error
    inner = [_known_or_given(name, arguments, left) for name, arguments in pairs]
    frames = said.get("frame_stack")
    outer = []
    if isinstance(frames, int) and frames > 1:
        padding = {"padding": said["frame_padding"]} if said.get("frame_padding") is not None else {}
        outer = [wrapper_text("VecFrameStack", {"n_stack": frames, **padding})]
    if outer and outer[0] in left:
        left.remove(outer[0])
    return (*inner, *left, *outer)


def _known_or_given(name: str, arguments: Mapping[str, Any], given: list[str]) -> str:
    """Return a wrapper that a file names: the given one of that name, which is taken out of those, or a known one."""
    plain = name.rpartition(".")[2]
    for text in given:
        written, own = parse_wrapper(text)
        if written.rpartition(":")[2] == plain:
            given.remove(text)
            return text if own else wrapper_text(written, arguments)
    known = known_name(name)
    if known is None:
        name = name[:_LONGEST_NAME]
        module, _, plain = name.rpartition(".")
        typed = wrapper_text(f"{module or 'MODULE'}:{plain}", {})
        raise UnfitEnvironmentError(
            f"the policy was trained behind the wrapper {name}, which legible does not know and does not import "
            f"because a file names it. If you trust it, give it yourself (--wrap {typed}; its arguments are taken from "
            f"the file), or leave out all wrappers of the file (--wrap {NO_WRAPPERS}). Known are "
            f"{', '.join(KNOWN_WRAPPERS)}."
        )
    return wrapper_text(known, arguments)
