"""The command line: the app with all commands, and the one place that turns errors into messages and exit codes.

Exit codes: 0 success; 1 a check failed or a target was missed; 2 usage error; 3 a file cannot be read, was refused, or
has nothing to measure; 101 a bug in effsparse; 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer

from effsparse_cli import __version__, files
from effsparse_cli.commands import COMMANDS, GROUP_EXAMPLES, GROUPS, find_command, list_commands
from effsparse_cli.commands.shared.help import Command, Group
from effsparse_cli.commands.shared.progress import progress_shown
from effsparse_cli.commands.shared.usage import check_command, usage_message, with_command
from effsparse_cli.errors import EffsparseError

UsageException: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
"""The base class of Click's errors. Some versions of Typer contain a copy of Click, others depend on it."""
BUG = 101
INTERRUPTED = 130


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"effsparse {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def build_app(loaded: Collection[str]) -> typer.Typer:
    """Build the app. Commands that this run does not need are added by name and help only, without importing them."""
    app = typer.Typer(
        name="effsparse",
        cls=Group,
        help="Measure and increase the effective sparsity of pruned neural networks.",
        epilog="Example:\neffsparse report model.pt --input-shape 1,3,32,32",
        rich_markup_mode=None,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name, summary in COMMANDS.items():
        if name not in GROUPS:
            _add_command(app, name, summary, loaded)
            continue
        group = typer.Typer(cls=Group, rich_markup_mode=None, no_args_is_help=True)
        group.callback()(_no_options)
        for each, about in GROUPS[name].items():
            _add_command(group, f"{name} {each}", about, loaded)
        app.add_typer(group, name=name, cls=Group, help=summary, epilog=GROUP_EXAMPLES[name])
    return app


def _no_options() -> None:
    pass


def _add_command(app: typer.Typer, name: str, summary: str, loaded: Collection[str]) -> None:
    own = name.split()[-1]
    if name in loaded:
        command, epilog = find_command(name)
        app.command(own, cls=Command, epilog=epilog)(command)
    else:
        app.command(own, cls=Command, help=summary)(lambda: None)


def _to_load(arguments: Sequence[str]) -> Collection[str]:
    # Completion and the manual page need the options of all commands, and a command may follow --.
    if "_EFFSPARSE_COMPLETE" in os.environ or "--" in arguments or arguments[:1] == ["man"]:
        return list_commands()
    return {arguments[0], " ".join(arguments[:2])} & {*list_commands()} if arguments else ()


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. No exception leaves this function."""
    try:
        with files.one_run(), progress_shown():
            check_command(arguments)
            command = typer.main.get_command(build_app(_to_load(arguments)))
            done = command.main(list(arguments), prog_name="effsparse", standalone_mode=False)
            return done if isinstance(done, int) else 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except UsageException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.ctx.get_help())
        else:
            _print_error(usage_message(error, arguments))
        return int(error.exit_code)
    except typer.Abort:
        return INTERRUPTED
    except EffsparseError as error:
        _print_error(with_command(error, arguments))
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except PermissionError as error:
        _print_error(f"{error.filename or 'a file'} cannot be used: {error.strerror or error}.")
        return EffsparseError.exit_code
    except Exception as error:
        if os.environ.get("EFFSPARSE_DEBUG"):
            traceback.print_exc()
        _print_error(
            f"this is a bug in effsparse ({type(error).__name__}: {error}). Please report it with the command you "
            "ran; EFFSPARSE_DEBUG=1 shows where it happened."
        )
        return BUG


def _print_error(message: str) -> None:
    from effsparse_cli.report.escape import printable

    text = f"error: {printable(' '.join(message.split()))}"
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    with suppress(OSError):
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)


def main() -> None:
    # The caller may have closed a stream (`>&-`).
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    # A closed pipe ends the process without a message, as for any Unix tool.
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    received: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    # Other requests to end (kill, a closed terminal, a job's time limit) clean up as Ctrl-C does.
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, interrupt)
    code = run(sys.argv[1:])
    sys.exit(128 + received[0] if received and code == INTERRUPTED else code)
