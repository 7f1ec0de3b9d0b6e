"""The order of things: flows and the command line."""
