"""How fast: side-by-side times whose results have been measured too."""
