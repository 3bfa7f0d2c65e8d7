"""The files of an input: listed, opened, and checked by their metadata alone; and hierarchy files."""
