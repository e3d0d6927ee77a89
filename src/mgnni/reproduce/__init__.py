"""The tables of the MGNNI paper, trained again: definitions, runner, statistics and tables."""
