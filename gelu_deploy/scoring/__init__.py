"""How good answers are, and how sure one can be of it.

``metrics`` compares two sets of arrays, ``metric`` scores answers row by row (top-1, perplexity, character errors, or a
user's own), ``statistics`` gives intervals, paired differences and how many rows would be needed. It knows nothing of
graphs, runtimes or files.
"""
