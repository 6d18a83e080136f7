"""A model in ONNX Runtime: :class:`Session` for a file, :class:`Evaluation` for a graph in memory.

It knows nothing of GELU, of PyTorch, or of what the numbers should be.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Union

import numpy as np

from gelu_deploy import artifact
from gelu_deploy.errors import ModelError, UsageError
from gelu_deploy.runtime.feeds import BITS, Spec, checked, specs
from gelu_deploy.runtime.providers import available_threads, choose, native, onnxruntime, open_session
from gelu_deploy.runtime.settings import DEFAULT, KEY, Settings
from gelu_deploy.source import require_onnx

if TYPE_CHECKING:
    import onnx_ir as ir

    from gelu_deploy.arrays import Array, Arrays


Model = Union["ir.Model", bytes, Path]
"""A graph in memory, serialised, or in a file."""


class Runnable:
    """What sessions have in common. Any number of threads may call one; a fork of the process may not.

    Attributes:
        provider: What it runs on: ``cpu``, ``cuda``, or the runtime's full name of another.
        settings: How it was opened.
        inputs: Name, shape and type of every input, by name.
        outputs: The same for the outputs.
    """

    def __init__(self, model: Model, provider: str, *, settings: Settings = DEFAULT, optimise: bool = True) -> None:
        chosen = choose(provider)
        self.provider = chosen.name
        self.settings = settings
        self._session = open_session(_loadable(model), chosen, settings=settings, optimise=optimise)
        self._process = os.getpid()
        self.inputs: dict[str, Spec] = specs(self._session.get_inputs())
        self.outputs: dict[str, Spec] = specs(self._session.get_outputs())
        self._opened().add(self)

    def __call__(self, feeds: Mapping[str, Any]) -> Arrays:
        """Run once.

        Args:
            feeds: One array per input, of exactly its type and shape; any byte order and memory layout.

        Returns:
            The outputs by name; bfloat16 and float8 as ``ml_dtypes`` has them.

        Raises:
            UsageError: An array does not fit its input, or the session is closed or of another process.
            ModelError: The model fails on these inputs.
            LimitError: There is not enough memory.
        """
        return self._run(checked(feeds, self.inputs))

    def placement(self) -> dict[str, str]:
        """Where each node runs, before the runtime fuses any: name (operator where it has none) to provider."""
        found: dict[str, str] = {}
        for part in self._usable().get_provider_graph_assignment_info():
            for node in part.get_nodes():
                name = node.name or node.op_type
                unnamed = f"{name}#{len(found)}" if name in found else name
                found[unnamed] = part.ep_name
        return found

    def close(self) -> None:
        """Free what the session holds; it cannot be used afterwards."""
        if os.getpid() == self._process:
            self._session = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @staticmethod
    @cache
    def _opened() -> weakref.WeakSet[Runnable]:
        """Open sessions. A fork never destroys them: it would wait for threads that only the parent has."""
        found: weakref.WeakSet[Runnable] = weakref.WeakSet()

        def keep() -> None:
            for one in found:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(one._session))

        os.register_at_fork(after_in_child=keep)
        return found

    def _usable(self) -> Any:
        if os.getpid() != self._process:
            raise UsageError(
                f"This session was opened in process {self._process} and has no threads in its fork {os.getpid()}. "
                "Open it after the fork, in the process that uses it."
            )
        if self._session is None:
            raise UsageError("This session is closed. Open a new one.")
        return self._session

    def _run(self, arrays: Arrays) -> Arrays:
        session, names = self._usable(), list(self.outputs)
        exotic = any(spec.dtype in BITS for spec in self.outputs.values())
        values = {name: _value(array, always=exotic) for name, array in arrays.items()}
        with native("The model fails on these inputs"):
            if not exotic:
                return dict(zip(names, session.run(names, values), strict=True))
            found = session.run_with_ort_values(names, values)
            return {name: _array(value, self.outputs[name]) for name, value in zip(names, found, strict=True)}


class Session(Runnable):
    """An ONNX file, ready to run.

    Args:
        path: The file; one of ours is verified first, with the files it names.
        provider: ``cpu``, ``cuda``, ``auto`` (CUDA where it works, else the CPU), or the runtime's full name of one.
        threads: For one operator; default: as many as this process may use, by affinity and quota.
        settings: How to open it; default: what was measured to be fastest and stored with the model, if anything was.

    Raises:
        UsageError: There is no such provider.
        SetupError: No runtime is installed, or the provider cannot be had.
        ModelError: The file is damaged, or the runtime refuses it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        provider: str = "cpu",
        *,
        threads: int | None = None,
        settings: Settings | None = None,
    ) -> None:
        file = Path(os.path.realpath(path))
        artifact.verify(file)
        chosen = stored(file) if settings is None else settings
        try:
            super().__init__(file, provider, settings=chosen if threads is None else replace(chosen, threads=threads))
        except ModelError as error:
            require_onnx(str(file))
            raise ModelError(f"{file}: {error}") from error
        self._file = file

    def kernels(self) -> dict[str, tuple[str, ...]]:
        """What computes each GELU of the file here, by the name of its output; one operator where it is fused."""
        from gelu_deploy.graph.inlined import inlined
        from gelu_deploy.graph.kernels import KernelIndex
        from gelu_deploy.graph.opening import open_graph
        from gelu_deploy.graph.recognize import find

        graph = open_graph(str(self._file)).model
        flat = inlined(graph)
        index = KernelIndex(optimised(flat.model, self.provider), flat)
        found = ((site.source.name or "", site.output.name or "", site.function) for site in find(graph).sites)
        return {output: index.of(source, output, function).ops for source, output, function in found}


def stored(path: str | os.PathLike[str]) -> Settings:
    """What was measured to be fastest and stored with a model, as far as it applies here. Raises ModelError."""
    return Settings.from_json(artifact.metadata(path).get(KEY, {})).here(available_threads())


class Evaluation(Runnable):
    """A model in memory, ready to run many times.

    Args:
        model: A graph, a serialised model, or its file.
        constants: Inputs that stay the same, such as the weights of a hollow graph; they are used where they lie.
        optimise: Whether the runtime optimises the graph first; without, every node runs as it is written.
        provider: As for :class:`Session`.

    Raises:
        UsageError: A constant is not an input, or does not fit it.
        SetupError: As for :class:`Session`.
        ModelError: The runtime refuses the model.
    """

    def __init__(
        self, model: Model, constants: Mapping[str, Array] | None = None, *, optimise: bool, provider: str = "cpu"
    ) -> None:
        super().__init__(model, provider, optimise=optimise)
        given = constants or {}
        bound = {name: spec for name, spec in self.inputs.items() if name in given}
        self._constants = checked(given, bound)
        self.inputs = {name: spec for name, spec in self.inputs.items() if name not in bound}

    def _run(self, arrays: Arrays) -> Arrays:
        return super()._run(self._constants | arrays)


def evaluate(model: Model, feeds: Mapping[str, Array], *, optimise: bool, provider: str = "cpu") -> Arrays:
    """Run a model once; arguments and errors as for :class:`Evaluation`."""
    with Evaluation(model, optimise=optimise, provider=provider) as evaluation:
        return evaluation(feeds)


def optimised(model: Model, provider: str = "cpu", *, settings: Settings = DEFAULT) -> ir.Model:
    """The graph that the runtime makes of a model at its default level, under the names of the model's own values.

    Args:
        model: At most 2 GB with its weights; a hollow graph is enough.
        provider: As for :class:`Session`.
        settings: How the session is opened.

    Raises:
        UsageError, SetupError, ModelError: As for :class:`Session`.
    """
    import onnx_ir as ir

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "optimised.onnx"
        open_session(_loadable(model), choose(provider), settings=settings, save=file)
        return ir.load(file)


def _loadable(model: Model) -> bytes | Path:
    if isinstance(model, (bytes, Path)):
        return model
    import onnx_ir as ir

    serialised: bytes = ir.to_proto(model).SerializeToString()
    return serialised


def _value(array: Array, *, always: bool) -> Any:
    """What the runtime takes in an array's place: the array, or a value on the same memory."""
    number = BITS.get(array.dtype.name)
    if number is None and not always:
        return array
    ort = onnxruntime()
    if number is None:
        return ort.OrtValue.ortvalue_from_numpy(array)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(f"u{array.dtype.itemsize}"), number)


def _array(value: Any, spec: Spec) -> Array:
    if spec.dtype not in BITS:
        return value.numpy()  # type: ignore[no-any-return]
    import ml_dtypes

    bits = bytearray(ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()))
    return np.frombuffer(bits, np.dtype(getattr(ml_dtypes, spec.dtype))).reshape(value.shape())
