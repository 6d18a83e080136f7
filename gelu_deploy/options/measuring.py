"""What the forms cost and how far off they are: ``forms``."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FormsOptions:
    """How the forms are measured."""

    bench: bool = False
    """Time every form too, on NumPy, PyTorch, torch.compile and ONNX Runtime, as far as they are here: minutes."""

    html: str | None = None
    """One HTML file to write all of it to, with bars; it takes the place of a file of that name."""
