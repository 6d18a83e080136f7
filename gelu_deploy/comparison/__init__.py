"""Variants of a model held against each other on the same rows, and the budgets that decide which may ship.

``candidates`` is what is compared, ``answering`` and ``latency`` measure it, ``rows`` writes it down; ``waterfall`` and
``histograms`` say where errors come from, ``activation`` what the twin shows, ``gates`` what is decided; ``folder`` is
where all of it goes. It knows neither the command line nor how a report looks, and makes no model.
"""
