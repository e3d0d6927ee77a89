"""What every model but MGNNI is trained with, and what is worth a search.

Each file has ``PRESETS``, settings by model and by benchmark or kind of benchmark, and ``SPACES``,
the values a search goes through. Comments say where a number comes from:

- [code]: read in the authors' released code;
- [P]: the text of the MGNNI paper;
- [r]: recalled from the paper named, not confirmed word for word;
- [ours]: our choice, where nobody says.
"""
