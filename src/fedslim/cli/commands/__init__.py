"""The commands. Typer evaluates annotations at run time, so modules with options do not postpone them."""
