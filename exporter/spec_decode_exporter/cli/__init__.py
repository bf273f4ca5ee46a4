"""The commands of the program, one module each: ``add_arguments`` and ``handle``."""
