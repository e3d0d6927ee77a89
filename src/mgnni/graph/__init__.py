"""From a graph to a linear operator, and what is proven about it; knows no solver."""
