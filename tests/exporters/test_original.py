"""Names of outputs, and arrays and tensors in both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from gelu_deploy.errors import UsageError
from gelu_deploy.target import load as find

flatten: Callable[[Any], dict[str, torch.Tensor]] = find("gelu_deploy.exporters.original:flatten")


class Named(NamedTuple):
    """A result with names."""

    score: torch.Tensor
    cache: Any


def test_names_of_outputs() -> None:
    one = torch.ones(1)
    named = {"last_hidden_state": one, "past": ((one, one), None), "loss": None, "n": 3}
    assert list(flatten(one)) == ["output_0"]
    assert list(flatten((one, None, [one, one]))) == ["output_0", "output_2_0", "output_2_1"]
    assert list(flatten(named)) == ["last_hidden_state", "past_0_0", "past_0_1"]
    assert list(flatten(Named(one, object()))) == ["score"]
    assert list(flatten({"a_0": one, "a": [one]})) == ["a_0", "a_0_1"]
    assert flatten(None) == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool])
def test_arrays_and_tensors_are_the_same(dtype: torch.dtype) -> None:
    tensor = torch.tensor([[0, 1, 2], [3, 0, 1]]).to(dtype).T
    to_array, to_tensor = (
        find("gelu_deploy.exporters.original:to_array"),
        find("gelu_deploy.exporters.original:to_tensor"),
    )
    assert torch.equal(to_tensor(to_array(tensor)), tensor)
    if dtype == torch.float32:
        assert torch.equal(to_tensor(to_array(tensor).astype(">f4")), tensor)
    with pytest.raises(UsageError, match="no input of a network"):
        to_tensor(np.array(["a"]))
