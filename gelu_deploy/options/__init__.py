"""Each verb's options: one frozen dataclass whose fields are the command's flags and the Python keywords.

It knows nothing of what the verbs do with them and imports nothing of ours but its own parts. The docstring of a field
is its help text.
"""

from gelu_deploy.options.comparing import CompareOptions
from gelu_deploy.options.exporting import CheckOptions, DoctorOptions, ExportOptions, InspectOptions, RunOptions
from gelu_deploy.options.measuring import BenchOptions, FormsOptions
from gelu_deploy.options.quantizing import QuantizeOptions, SurveyOptions
from gelu_deploy.options.source import SourceOptions

__all__ = [
    "BenchOptions", "CheckOptions", "CompareOptions", "DoctorOptions", "ExportOptions", "FormsOptions",
    "InspectOptions", "QuantizeOptions", "RunOptions", "SourceOptions", "SurveyOptions",
]  # fmt: skip
