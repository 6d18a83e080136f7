"""What other runtimes were measured to compute for every form in every spelling of ours.

Every model was run twice, on -40 to 40: the GELU alone, and between two layers; both gave the same. ``refused``: the
runtime does not take the model. ``none``: what it computes is no form of GELU. What is not itself here is what people
meet without a word: MNN makes every ``Gelu`` the tanh form, OpenCV makes every one the erf form, and OpenCV's Tanh is
NaN beyond 44.2, which the tanh form in operators reaches at x = 10.05. Other orders of the same operators may fare
otherwise: MNN takes x·(1 + erf)·½ for its own GELU, and leaves ½x·(1 + erf) alone.

The test of this file measures all of it again in the runtimes that are installed. It knows nothing of them.
"""

from __future__ import annotations

from collections.abc import Mapping

REFUSED = "refused"

MEASURED_WITH: Mapping[str, str] = {
    "openvino": "2026.4.1",
    "opencv": "5.0.0",
    "tract": "0.23.9",
    "mnn": "3.6.1",
    "ort-web": "1.30.0",
}
"""The versions of the runtimes."""

COMPUTED: Mapping[str, Mapping[tuple[str, str], str]] = {
    "openvino": {
        ("erf", "ops"): "erf",
        ("erf", "gelu"): "erf",
        ("erf", "contrib"): "erf",
        ("tanh", "ops"): "tanh",
        ("tanh", "ops-safe"): "tanh",
        ("tanh", "sigmoid3"): "tanh",
        ("tanh", "gelu"): "tanh",
        ("tanh", "contrib"): "tanh",
        ("sigmoid", "ops"): "sigmoid",
        ("sigmoid", "contrib"): "sigmoid",
        ("refit3", "ops"): "refit3",
        ("refit5", "ops"): "refit5",
        ("igelu", "ops"): "igelu",
    },
    "opencv": {
        ("erf", "ops"): "erf",
        ("erf", "gelu"): "erf",
        ("erf", "contrib"): "erf",
        ("tanh", "ops"): "none",
        ("tanh", "ops-safe"): "tanh",
        ("tanh", "sigmoid3"): "tanh",
        ("tanh", "gelu"): "erf",
        ("tanh", "contrib"): "refused",
        ("sigmoid", "ops"): "sigmoid",
        ("sigmoid", "contrib"): "refused",
        ("refit3", "ops"): "refit3",
        ("refit5", "ops"): "refit5",
        ("igelu", "ops"): "igelu",
    },
    "tract": {
        ("erf", "ops"): "erf",
        ("erf", "gelu"): "erf",
        ("erf", "contrib"): "erf",
        ("tanh", "ops"): "tanh",
        ("tanh", "ops-safe"): "tanh",
        ("tanh", "sigmoid3"): "tanh",
        ("tanh", "gelu"): "tanh",
        ("tanh", "contrib"): "tanh",
        ("sigmoid", "ops"): "sigmoid",
        ("sigmoid", "contrib"): "sigmoid",
        ("refit3", "ops"): "refit3",
        ("refit5", "ops"): "refit5",
        ("igelu", "ops"): "igelu",
    },
    "mnn": {
        ("erf", "ops"): "erf",
        ("erf", "gelu"): "tanh",
        ("erf", "contrib"): "tanh",
        ("tanh", "ops"): "tanh",
        ("tanh", "ops-safe"): "tanh",
        ("tanh", "sigmoid3"): "tanh",
        ("tanh", "gelu"): "tanh",
        ("tanh", "contrib"): "refused",
        ("sigmoid", "ops"): "sigmoid",
        ("sigmoid", "contrib"): "refused",
        ("refit3", "ops"): "refit3",
        ("refit5", "ops"): "refit5",
        ("igelu", "ops"): "igelu",
    },
    "ort-web": {
        ("erf", "ops"): "erf",
        ("erf", "gelu"): "erf",
        ("erf", "contrib"): "erf",
        ("tanh", "ops"): "tanh",
        ("tanh", "ops-safe"): "tanh",
        ("tanh", "sigmoid3"): "tanh",
        ("tanh", "gelu"): "tanh",
        ("tanh", "contrib"): "tanh",
        ("sigmoid", "ops"): "sigmoid",
        ("sigmoid", "contrib"): "sigmoid",
        ("refit3", "ops"): "refit3",
        ("refit5", "ops"): "refit5",
        ("igelu", "ops"): "igelu",
    },
}
"""By runtime, then by form and spelling: the form that is computed."""
