"""The parts of ``scripts/bench``: this project beside its peers, on one machine, in one run.

``networks`` has what is measured, ``making`` is the program in which a tool makes its file, ``peers`` runs it and keeps
what came; ``models``, ``export``, ``passes`` and ``limit`` are the measurements; ``record`` is how each prints and
saves, ``goals`` judges what was saved and ``page`` writes the document of it.
"""
