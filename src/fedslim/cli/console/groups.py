"""Groups of commands, such as `fedslim ca`."""

# Typer evaluates annotations at run time, so this module does not postpone them.
import typer

from fedslim.cli.console.stream import print_text


def command_group(text: str) -> typer.Typer:
    """Return a group with this help, which it prints if no command is given."""
    group = typer.Typer(help=text, rich_markup_mode=None, add_completion=False)

    @group.callback(invoke_without_command=True)
    def print_help(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            print_text(context.get_help() + "\n")

    return group
