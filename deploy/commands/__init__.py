"""The commands of the command line, one module for each group; loaded when they are asked for."""
