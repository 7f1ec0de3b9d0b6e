"""One module a command of `rankhouse`, loaded when the command is called."""
