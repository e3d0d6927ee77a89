"""Colours that stay apart for the colour-blind and in grey (from Okabe and Ito's set)."""

MODELS = ("#d55e00", "#0072b2")  # one scale, several scales
NODES = ("#009e73", "#f0e442")  # the two colours to count
