"""What the records say: curves, the comparison in numbers and words, figures, and the live view.

Reads records and run specs; no engine may import it. Pandas and matplotlib are imported by the modules
that are used at the end, never by `live`.
"""
