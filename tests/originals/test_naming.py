"""What inputs and outputs are called."""

from __future__ import annotations

import pytest

from gelu_deploy.errors import UsageError
from gelu_deploy.originals import naming


def test_names_are_the_users_or_the_networks() -> None:
    assert naming._names((), ["a", "b"], "--input-names") == ("a", "b")
    assert naming._names(("x", "y"), ["a", "b"], "--input-names") == ("x", "y")
    with pytest.raises(UsageError, match="--input-names: got 1 names for 2: a, b"):
        naming._names(("x",), ["a", "b"], "--input-names")
