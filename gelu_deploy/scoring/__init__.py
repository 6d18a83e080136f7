"""How good answers are, and how sure one can be of it.

``metrics`` compares two sets of arrays, ``metric`` scores answers row by row (top-1, or a user's own function, such as
those for perplexity and character errors in ``examples``), ``statistics`` gives intervals, paired differences and how
many rows would be needed. It knows nothing of graphs, runtimes or files of arrays.
"""
