"""Calls in forward: found, replaced and left."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn
from torch.nn.functional import gelu as act

from gelu_deploy.nn import GELU, replace_gelu

TORCHS = F.gelu
SHARED = nn.GELU()


def tanh(input: Tensor, **_: Any) -> Tensor:  # noqa: A002 - torch's name
    return TORCHS(input, approximate="tanh")


def own_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x / 2**0.5))


def _hidden(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x / 2**0.5))


def mlp(x: Tensor, up: nn.Module, down: nn.Module) -> Any:
    return down(F.gelu(up(x)))


class Base(nn.Module):
    """Parts for the forwards below."""

    shift: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 6), nn.Linear(6, 4)
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.zeros(4))


class Plain(Base):
    def forward(self, x: Tensor, *, twice: float = 1.0) -> Any:
        """Words of its own."""
        return self.down(F.gelu(self.up(x * self.scale + self.shift))) * twice


class Named(Base):
    def forward(self, x: Tensor) -> Any:
        return self.down(act(self.up(x)))


class Full(Base):
    def forward(self, x: Tensor) -> Any:
        return self.down(torch.nn.functional.gelu(input=self.up(x), approximate="none"))


class Own(Base):
    def forward(self, x: Tensor) -> Any:
        return self.down(own_gelu(self.up(x)))


class Held(Base):
    def forward(self, x: Tensor) -> Any:
        return self.down(SHARED(self.up(x)))


class InMethod(Base):
    def feed(self, x: Tensor) -> Tensor:
        return F.gelu(x)

    def forward(self, x: Tensor) -> Any:
        return self.down(self.feed(self.up(x)))


class Method(Base):
    def gelu(self, x: Tensor) -> Tensor:
        return own_gelu(x)

    def forward(self, x: Tensor) -> Any:
        return self.down(self.gelu(self.up(x)))


class InFunction(Base):
    def forward(self, x: Tensor) -> Any:
        return mlp(x, self.up, self.down)


class Shapes(Base):
    def forward(self, x: Tensor) -> Any:
        rows, _ = x.shape
        return self.down(F.gelu(self.up(x)).reshape(rows, -1))


class Passing(Base):
    def forward(self, x: Tensor, bias: Tensor | None = None) -> Any:
        return F.linear(F.gelu(self.up(x)), self.down.weight, bias)


class Dropping(Base):
    def forward(self, x: Tensor) -> Any:
        return self.down(F.dropout(F.gelu(self.up(x)), 0.5, self.training))


class Branching(Base):
    def forward(self, x: Tensor) -> Any:
        y = F.gelu(self.up(x))
        return self.down(F.dropout(y, 0.5)) if self.training else self.down(y)


class Optional(Base):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        y = F.gelu(self.up(x))
        return self.down(y if mask is None else y * mask)


class Deciding(Base):
    def forward(self, x: Tensor) -> Any:
        return self.down(F.gelu(self.up(x))) if x.sum() > 0 else x


class Keeping(Base):
    def forward(self, x: Tensor) -> Any:
        self.last = F.gelu(self.up(x))
        return self.down(self.last)


class Asking(Base):
    def forward(self, x: Tensor) -> Any:
        return self.down(F.gelu(self.up(x))) if isinstance(x, Tensor) else x


class Otherwise(Base):
    def forward(self, x: Tensor) -> Any:
        return self.down(F.gelu(self.up(x), approximate="tanh" if self.training else "none"))


class Hidden(Base):
    def forward(self, x: Tensor) -> Any:
        return self.down(_hidden(self.up(x)))


class Child(Base):
    def __init__(self) -> None:
        super().__init__()
        self.gelu = nn.GELU()

    def forward(self, x: Tensor) -> Any:
        return self.down(self.gelu(self.up(x))) if x.sum() > 0 else x


class Several(Base):
    def __init__(self) -> None:
        super().__init__()
        self.gelu = F.gelu

    def forward(self, x: Tensor) -> Any:
        y = self.gelu(self.up(x))
        return self.down(F.gelu(own_gelu(SHARED(y)), approximate="tanh"))


def input_of() -> Tensor:
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


TRACED = [Plain, Named, Full, Own, Hidden, Held, InMethod, Method, InFunction, Shapes, Passing, Dropping, Branching]


@pytest.mark.parametrize("kind", TRACED, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("training", [False, True])
def test_a_call_becomes_a_layer(kind: type[Base], training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    network, x = kind().train(training), input_of()
    reference = copy.deepcopy(network)
    (change,) = replace_gelu(network, "tanh")
    assert (change.form, change.now, change.reason) == ("erf", "GELU(form='tanh')", "")
    assert change.was.endswith(f" in {kind.__name__}.forward")
    layer = network.get_submodule(change.path)
    assert isinstance(layer, GELU)
    assert layer.training == training
    for name in ("act", "own_gelu", "_hidden", "SHARED"):
        monkeypatch.setitem(globals(), name, tanh)
    monkeypatch.setattr(F, "gelu", tanh)
    for mode in (training, not training):
        torch.manual_seed(1)
        known = reference.train(mode)(x)
        torch.manual_seed(1)
        assert torch.equal(network.train(mode)(x), known)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Optional, "its forward depends on whether mask is given"),
        (Deciding, "its forward cannot be traced: TraceError: symbolically traced variables cannot be used as inputs"),
        (Keeping, "its forward keeps something on the module"),
        (Asking, "its forward asks what its input is (isinstance), which a trace does not record"),
        (Otherwise, "its forward has other GELUs in training"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_call_that_stays_says_why(kind: type[Base], reason: str) -> None:
    network, x = kind(), input_of()
    known, before = network.eval()(x), list(vars(network))
    (change,) = replace_gelu(network.train(), "tanh")
    assert (change.path, change.form, change.now) == ("forward", "", "")
    assert change.reason.startswith(reason)
    assert list(vars(network)) == before
    assert type(network) is kind
    assert torch.equal(network.eval()(x), known)


def test_a_child_of_that_name_is_no_call() -> None:
    network = Child()
    (change,) = replace_gelu(network, "tanh")
    assert change.path == "gelu"
    assert type(network) is Child


def test_a_forward_of_the_instance_stays() -> None:
    network = Plain()
    network.forward = lambda x: x  # type: ignore[method-assign, assignment, misc] # as accelerate does
    (change,) = replace_gelu(network, "tanh")
    assert change.reason == "its forward was replaced on the instance"


@pytest.mark.parametrize("exclude", [[], ["gelu"], ["SHARED"], ["own_gelu", "gelu_1"], ["SHARED", "gelu*"]])
def test_several_in_one_forward(exclude: list[str]) -> None:
    network, x = Several().eval(), input_of()
    paths = ["gelu", "SHARED", "own_gelu", "gelu_1"]
    left = {path for path in paths if any(fnmatchcase(path, pattern) for pattern in exclude)}
    was: list[Callable[[Tensor], Tensor]] = [F.gelu, F.gelu, F.gelu, nn.GELU("tanh")]
    changes = replace_gelu(network, "sigmoid", exclude=exclude)
    assert [one.path for one in changes] == paths
    assert [one.form for one in changes] == ["erf", "erf", "erf", "tanh"]
    assert {one.path for one in changes if one.reason == "excluded"} == left
    known = network.up(x)
    for path, function in zip(paths, was, strict=True):
        known = (function if path in left else GELU("sigmoid"))(known)
    torch.testing.assert_close(network(x), network.down(known), atol=1e-6, rtol=0)
    assert {one.path for one in replace_gelu(network, "sigmoid") if one.now} == left


def test_the_module_stays_what_it_is() -> None:
    network, called = Plain(), list[str]()
    handle = network.register_forward_hook(lambda *_: called.append("hook"))
    weights, signature = network.state_dict(keep_vars=True), inspect.signature(network.forward)
    replace_gelu(network, "tanh")
    assert isinstance(network, Plain)
    assert repr(type(network)) == repr(Plain)
    assert inspect.signature(network.forward) == signature
    assert network.forward.__doc__ == "Words of its own."
    assert all(one is weights[name] for name, one in network.state_dict(keep_vars=True).items())
    network(input_of(), twice=2.0)
    handle.remove()
    network(input_of())
    assert called == ["hook"]


def test_weights_that_move_are_followed() -> None:
    network = Plain()
    replace_gelu(network, "tanh")
    network.double()
    network.shift = torch.full((4,), 3.0, dtype=torch.float64)
    x = input_of().double()
    assert torch.equal(network(x), network.down(tanh(network.up(x * network.scale + 3.0))))


def test_a_copy_has_weights_of_its_own_and_a_pickle_is_refused() -> None:
    network: nn.Module = nn.Sequential(Plain())
    x = input_of()
    replace_gelu(network, "tanh")
    again = copy.deepcopy(network)
    assert torch.equal(again(x), network(x))
    with torch.no_grad():
        again.get_parameter("0.up.weight").zero_()
    assert not torch.equal(again(x), network(x))
    with pytest.raises(pickle.PicklingError, match="not the same object"):
        pickle.dumps(network)
    fresh = nn.Sequential(Plain())
    fresh.load_state_dict(network.state_dict())
    replace_gelu(fresh, "tanh")
    assert torch.equal(fresh(x), network(x))


def test_other_copies_of_the_class_are_left_alone() -> None:
    one, other = Plain(), Plain()
    replace_gelu(one, "tanh")
    assert not hasattr(other, "gelu")
    assert type(other) is Plain
    assert torch.equal(other(input_of()), other.down(F.gelu(other.up(input_of()))))
