"""Reports as one HTML file that needs no network: tables, figures, and the command of each."""
