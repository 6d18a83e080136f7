"""How long variants of a model take and what memory they need: in turns, each in a process of its own.

``interleaved`` is the parent's side and ``child`` the other; what runs there is opened by a function that is named, so
that any runtime can be a variant. It knows nothing of GELU or of INT8.
"""
