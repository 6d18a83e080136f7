"""What each form of GELU costs on this machine: time, share of the memory's speed and memory, on every engine there is.

``engines`` is what runs in a process of its own, ``graphs`` the ONNX files that ONNX Runtime is given, ``racing`` lets
them run in turns, ``claims`` holds the articles' numbers against what came out. It knows the table of forms and
nothing of models.
"""
