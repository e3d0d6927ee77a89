"""The tables of the MGNNI paper, trained again: definitions, runner and tables."""
