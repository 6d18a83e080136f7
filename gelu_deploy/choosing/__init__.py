"""Which form and spelling of its GELUs a model runs fastest with: measured on this machine, in the whole graph.

``candidates`` makes the ways to write them, in ``files``; ``racing`` times them, ``deciding`` takes one, ``effects``
says what it does to the answers, ``words`` says why; ``choice`` joins all that, and ``cache`` keeps what came out. It
knows the pipeline and the runtime, and neither how models are opened nor how files are published.
"""
