"""Speed comparisons in which every time comes with the measured error of the result."""
