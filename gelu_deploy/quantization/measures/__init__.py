"""What 8 bits cost and where they run: numbers for reports and for what is decided by them.

``metrics`` compares arrays, ``judging`` whole models, ``quality`` and ``sidebyside`` single layers; ``coverage``,
``work`` and ``causes`` say what runs in integers and why no more of it; ``saturation``, ``products`` and ``cpu`` say
what sums in 16 bits cut off; ``rounding`` tells the error of weights from that of activations. Nothing here changes a
model that it is given as a network or a file.
"""
