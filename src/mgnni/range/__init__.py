"""The range of a graph model: which nodes influence which, theory and measurement."""
