"""Kinds of CPU: which one this is, and what its kernels do."""

from __future__ import annotations

import pytest

from gelu_deploy.errors import UsageError
from gelu_deploy.quantization.measures.cpu import CPUS, here, target


@pytest.mark.parametrize(
    ("machine", "flags", "name"),
    [
        ("x86_64", "fpu sse4_2 avx2", "avx2"),
        ("x86_64", "fpu avx2 avx_vnni", "vnni"),
        ("x86_64", "fpu avx2 avx512f avx512bw", "avx512"),
        ("AMD64", "fpu avx2 avx512f avx512bw avx512_vnni", "vnni"),
        ("x86_64", "", "avx2"),
        ("aarch64", "Features : fp asimd asimddp", "arm64"),
        ("arm64", "", "arm64"),
    ],
)
def test_a_machine_is_known_by_what_it_says_of_itself(machine: str, flags: str, name: str) -> None:
    assert here(machine, flags).name == name


def test_auto_is_this_machine_and_every_name_is_its_own() -> None:
    assert target("auto") == here()
    assert {name: target(name).name for name in CPUS} == {name: name for name in CPUS}


def test_only_x86_without_vnni_saturates_and_only_arm_has_signed_activations() -> None:
    assert {name for name, cpu in CPUS.items() if cpu.saturates} == {"avx2", "avx512"}
    assert {name for name, cpu in CPUS.items() if cpu.activation == "s8"} == {"arm64"}


def test_an_unknown_cpu_is_refused_with_the_names() -> None:
    with pytest.raises(UsageError, match=r"--target-cpu sse2: expected arm64, avx2, avx512, vnni or auto"):
        target("sse2")


def test_only_a_cpu_without_vnni_says_that_it_is_slow() -> None:
    assert CPUS["avx2"].limits == ["avx2 has no VNNI: its integer products take hardly less time than float ones"]
    assert CPUS["vnni"].limits == CPUS["arm64"].limits == []
