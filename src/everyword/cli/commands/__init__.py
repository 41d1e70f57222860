"""One module per command, named after it. Each declares its arguments and runs the command."""
