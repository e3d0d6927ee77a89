"""The parts of a model as modules, one equation each; they hold parameters, but no loop."""
