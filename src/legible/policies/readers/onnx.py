"""Reader of ONNX files, run by onnxruntime (the extra ``onnx``)."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from legible.errors import LegibleError
from legible.imports import optional_package
from legible.policies.protocol import Observations, Policy, PolicyError, UnclearPolicyError
from legible.policies.readers import objects
from legible.policies.registry import LoadOptions, PolicyReader
from legible.policies.wrapped import Output

_OUTPUT_NAMES: dict[str, Output] = {
    "logits": "logits",
    "q_values": "values",
    "qvalues": "values",
    "log_probs": "log-probabilities",
    "log_probabilities": "log-probabilities",
    "probs": "probabilities",
    "probabilities": "probabilities",
    "actions": "actions",
    "action": "actions",
}
_MOST_FEATURES = 10**7


@dataclass(eq=False)
class OnnxFunction:
    """The graph of an ONNX file as a function on arrays; it is pickled as bytes."""

    graph: bytes
    _session: Any = field(default=None, repr=False)

    @property
    def session(self) -> Any:
        """Session of onnxruntime with one thread."""
        if self._session is None:
            runtime = optional_package("onnxruntime", "onnx", "ONNX files")
            settings = runtime.SessionOptions()
            settings.intra_op_num_threads = settings.inter_op_num_threads = 1
            settings.log_severity_level = 4
            # Without the fallback, which prints about damaged files and tries the same again.
            self._session = runtime.InferenceSession(
                self.graph, settings, providers=["CPUExecutionProvider"], enable_fallback=0
            )
        return self._session

    def __call__(self, observations: Observations) -> npt.NDArray[Any]:
        """Return the output of the graph, in one call if it takes batches of any size."""
        given = self.session.get_inputs()[0]
        name, shape = given.name, [size if isinstance(size, int) else None for size in given.shape]
        batch = observations.reshape(len(observations), *(shape[1:] if None not in shape[1:] else [-1]))
        pieces = [batch] if not shape or shape[0] is None else np.split(batch, max(len(batch) // shape[0], 1))
        return np.concatenate([self.session.run(None, {name: piece})[0] for piece in pieces])

    def __getstate__(self) -> dict[str, Any]:
        return {"graph": self.graph, "_session": None}


def is_own(source: Any) -> bool:
    """Return whether this is an ONNX file, by its name."""
    return isinstance(source, Path) and source.suffix == ".onnx" and source.is_file()


def read(path: Path, options: LoadOptions) -> Policy:
    """Return the policy of an ONNX file, whose graph is a function from observations to scores or actions."""
    # These options describe tensors, not a graph: passing them is an error.
    options.refuse("an ONNX file", "activation", "encoding", "algorithm")
    function = OnnxFunction(path.read_bytes())
    try:
        inputs, outputs = function.session.get_inputs(), function.session.get_outputs()
    except LegibleError:
        raise
    except Exception as error:
        # onnxruntime raises many kinds of errors for damaged files.
        raise PolicyError(f"{path}: onnxruntime cannot read it: {str(error)[:300]}") from error
    if not outputs:
        raise PolicyError(f"{path}: the graph has no output")
    if len(inputs) != 1 or inputs[0].type != "tensor(float)":
        listed_inputs = ", ".join(f"{each.name} {each.type}" for each in inputs)
        raise PolicyError(
            f"{path}: it takes {listed_inputs}; supported are graphs with one input of type tensor(float)"
        )
    # The graph may say how many numbers an observation has (axes without a fixed size are texts or None), and the name
    # of its output what it means.
    observation_shape = inputs[0].shape[1:]  # without the batch
    n_features = options.n_features
    if n_features is None and observation_shape and all(isinstance(size, int) for size in observation_shape):
        n_features = math.prod(observation_shape)
        if not 0 < n_features <= _MOST_FEATURES:
            raise PolicyError(f"{path}: its observations would have {n_features} numbers")
    output = options.output or _OUTPUT_NAMES.get(outputs[0].name.lower())
    if output is None:
        raise UnclearPolicyError(
            f"{path}: the meaning of its output {outputs[0].name!r} is unknown. Pass output: values, logits, "
            "log-probabilities, probabilities or actions",
            "output",
        )
    complete_options = dataclasses.replace(options, output=output, n_features=n_features)
    try:
        return objects.with_output(function, complete_options, str(path))
    except (RuntimeError, ValueError) as error:
        raise PolicyError(f"{path}: the graph cannot be run: {str(error)[:300]}") from error


READER = PolicyReader("onnx", "an .onnx file", is_own, read)
