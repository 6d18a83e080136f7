"""The command line: from arguments to a verb, from its result to tables, JSON and an exit code.

It knows the names and options of the verbs and not what they do; a verb's module is imported when its command runs.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import sys
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, NoReturn

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter, UnusedCliTokensError

import gelu_deploy
from gelu_deploy import options
from gelu_deploy.cli import terminal
from gelu_deploy.errors import (
    EXIT_BUG,
    EXIT_GATE,
    EXIT_INTERRUPTED,
    EXIT_PASS,
    EXIT_TERMINATED,
    GeluDeployError,
    LimitError,
    OutputError,
    UsageError,
)
from gelu_deploy.strict_json import as_json

GARBAGE = (100_000, 20, 50)
"""When Python looks for garbage. Its own 700 new objects are nothing to PyTorch's exporter, which makes millions that
stay: looking through them again and again took 1 of 13 seconds."""


@dataclass(frozen=True)
class Command:
    """A command: the options of the verb of the same name, and what its MODEL may be (None: it takes none)."""

    options: Any
    model: str | None
    several: bool = False


COMMANDS = {
    "export": Command(options.ExportOptions, "The network: a file, a folder, FILE.py:NAME or MODULE:NAME."),
    "inspect": Command(options.InspectOptions, "Any ONNX file."),
    "check": Command(options.CheckOptions, "An ONNX file that export wrote."),
    "run": Command(options.RunOptions, "Any ONNX file."),
    "survey": Command(options.SurveyOptions, "The network: any ONNX file, or what export takes."),
    "quantize": Command(options.QuantizeOptions, "A float ONNX file, such as export writes."),
    "compare": Command(options.CompareOptions, "The network: what export takes, or a float ONNX file."),
    "bench": Command(options.BenchOptions, "Any ONNX file; several are timed in turns.", several=True),
    "forms": Command(options.FormsOptions, None),
    "doctor": Command(options.DoctorOptions, None),
}


@dataclass(frozen=True)
class Call:
    """One parsed command line."""

    verb: str
    arguments: tuple[Any, ...]
    json: str | None


def run() -> NoReturn:
    """The program: one command in a process of its own, which ends as soon as everything is said."""
    gc.set_threshold(*GARBAGE)
    terminal.leave(main())


def main(argv: list[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: The words after the program's name; default: those of this process.

    Returns:
        The exit code: 0 pass, 1 a verdict that failed, otherwise as in :mod:`gelu_deploy.errors`.
    """
    terminal.prepare()
    try:
        with terminal.sigterm_raises():
            call = _parse(sys.argv[1:] if argv is None else argv)
            return EXIT_PASS if call is None else _carry_out(call)
    except GeluDeployError as error:
        return _complain(str(error), error.exit_code)
    except MemoryError:
        return _complain("There is not enough memory for this model on this machine.", LimitError.exit_code)
    except KeyboardInterrupt:
        return _complain("interrupted", EXIT_INTERRUPTED)
    except terminal.Terminated:
        return _complain("terminated", EXIT_TERMINATED)
    except Exception as error:  # noqa: BLE001  # whatever else comes up here is a bug, and is told as one
        return _complain(terminal.bug_report(error), EXIT_BUG)


def _complain(message: str, code: int) -> int:
    sys.stderr.write(f"gelu-deploy: {message}\n")
    return code


def _parse(argv: list[str]) -> Call | None:
    """The call that is meant; None when help or the version was asked for and has been printed."""
    page = terminal.Page()
    app = App(
        name="gelu-deploy",
        help="Export networks with GELU to ONNX, prove that they compute the same, and see what runs.",
        help_format="plaintext",  # markdown would import a parser that --help has no time for
        version=lambda: f"gelu-deploy {gelu_deploy.__version__}",
        default_parameter=Parameter(negative_iterable=(), show_default=_worth_showing),
        result_action="return_value",
        console=page.console,
    )
    for place, (verb, command) in enumerate(COMMANDS.items()):
        app.command(_parser(verb, command), name=verb, help=_summary(verb), sort_key=place)
    try:
        answer = app(argv, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        verb = f" {argv[0]}" if argv and argv[0] in COMMANDS else ""
        raise UsageError(f"{_misuse(error)}\nSee gelu-deploy{verb} --help.") from None
    page.write()
    return answer if isinstance(answer, Call) else None


def _misuse(error: CycloptsError) -> str:
    """What is wrong with the words, in ours where cyclopts' own say too little."""
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        words = " ".join(map(repr, error.unused_tokens))
        return f"Nothing is expected where {words} came; an option takes one value, and is repeated for more."
    if isinstance(error, MissingArgumentError) and error.argument and not (error.keyword or error.unused_tokens):
        flag = error.argument
        name = f"MODEL (or {flag.name})" if flag.name == "--model" else flag.name
        return f"{name} is missing{': ' if flag.parameter.help else '.'}{flag.parameter.help or ''}"
    return str(error)


def _parser(verb: str, command: Command) -> Any:
    """A function whose signature is the command's flags and which returns the :class:`Call`."""
    signature = inspect.Signature(list(_parameters(command)))

    def parse(*positional: Any, **keywords: Any) -> Call:
        bound = signature.bind(*positional, **keywords)
        bound.apply_defaults()
        values = dict(bound.arguments)
        report = values.pop("json")
        return Call(verb, tuple(values.values()), report)

    parse.__signature__ = signature  # type: ignore[attr-defined]
    return parse


def _parameters(command: Command) -> Iterator[inspect.Parameter]:
    flag = inspect.Parameter
    if command.model is not None:
        kind = tuple[str, ...] if command.several else str
        model = Annotated[kind, Parameter(name=("--model", "-m"), help=command.model)]  # type: ignore[valid-type]
        yield flag("model", flag.POSITIONAL_OR_KEYWORD, annotation=model)
    show = bool(fields(command.options))
    flags = Annotated[command.options, Parameter(name="*", show=show)]  # type: ignore[name-defined]  # made at run time
    required = any(field.default is MISSING for field in fields(command.options))
    yield flag("options", flag.KEYWORD_ONLY, annotation=flags, default=flag.empty if required else command.options())
    told = Parameter(
        name="--json", allow_leading_hyphen=True, help="Write the result as JSON to this file; - is stdout."
    )
    yield flag("json", flag.KEYWORD_ONLY, annotation=Annotated[str | None, told], default=None)


def _summary(verb: str) -> str:
    """What the verb of this name says of itself in its first line, up to the first semicolon."""
    first = str(getattr(gelu_deploy, verb).__doc__).partition("\n")[0]
    return first.partition(";")[0].removesuffix(".") + "."


def _worth_showing(default: Any) -> str | None:
    return None if default is None or isinstance(default, (bool, tuple)) else str(default)


def _refuse_to_harm(report: Path, call: Call) -> None:
    """Raise OutputError if the JSON cannot be written, or would take the place of a file that the command reads."""
    if not report.parent.is_dir():
        raise OutputError(f"--json {report}: its folder does not exist. Make it, or name another file.")
    settings = call.arguments[-1]
    first = call.arguments[0]
    named = [
        *(first if isinstance(first, tuple) else (first,)),
        *(getattr(settings, name, None) for name in ("output", "data", "calib_data", "against", "twin", "html")),
    ]
    if any(isinstance(name, str) and Path(name).resolve() == report.resolve() for name in named):
        raise OutputError(f"--json {report}: the command reads or writes that file itself. Name another one.")


def _carry_out(call: Call) -> int:
    """Call the verb and say what came of it."""
    if call.json not in {None, "-"}:
        _refuse_to_harm(Path(str(call.json)), call)
    with terminal.stdout_for_results_only(), terminal.spinner(call.verb):
        result = getattr(importlib.import_module(f"gelu_deploy.verbs.{call.verb}"), call.verb)(*call.arguments)
    if call.json == "-":
        terminal.write_stdout(as_json(result))
    else:
        from gelu_deploy.cli.tables import render

        if call.json is not None:
            terminal.write_file(Path(call.json), as_json(result))
        terminal.show(render(result))
    return EXIT_GATE if result.get("verdict") in {"fail", "cannot tell"} else EXIT_PASS
