"""The parts of ``scripts/gpu_check``.

``check`` goes through all of it and prints; ``exports`` proves files on the provider, ``racing`` times ways to run one,
which ``openers`` opens, each in a process of its own.
"""
