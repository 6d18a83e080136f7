"""Settings of ONNX Runtime that change how fast a model runs and not what it computes; stored with a model.

It knows nothing of how they are chosen (``tuning`` measures that).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

KEY = "runtime"
"""Entry of an artifact's metadata in which they stand."""


@dataclass(frozen=True)
class Settings:
    """How a session is opened; the defaults are the runtime's own.

    Attributes:
        disabled_optimizers: Names of the runtime's graph optimizers that are left out.
        threads: For one operator; None is as many as the process may use.
        spinning: Whether idle threads wait busily for more work.
        cores: Threads that the process had when ``threads`` was measured; elsewhere ``threads`` is not used.
    """

    disabled_optimizers: tuple[str, ...] = ()
    threads: int | None = None
    spinning: bool = True
    cores: int | None = None

    def here(self, cores: int) -> Settings:
        """The same for a process that may use ``cores``: a number of threads that was measured elsewhere is dropped."""
        return self if self.cores in {None, cores} else Settings(self.disabled_optimizers, None, self.spinning)

    def to_json(self) -> dict[str, Any]:
        """For an artifact's metadata."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Settings:
        """From an artifact's metadata; entries of a later version are passed over."""
        names = tuple(str(name) for name in found.get("disabled_optimizers", ()))
        return cls(names, found.get("threads"), bool(found.get("spinning", True)), found.get("cores"))

    def __str__(self) -> str:
        """``without SkipLayerNormFusion, 2 threads``; ``the runtime's own`` where nothing is changed."""
        parts = [f"without {', '.join(self.disabled_optimizers)}"] if self.disabled_optimizers else []
        if self.threads is not None:
            parts.append(f"{self.threads} thread{'s' * (self.threads > 1)}")
        if not self.spinning:
            parts.append("no spinning")
        return ", ".join(parts) or "the runtime's own"


DEFAULT = Settings()
