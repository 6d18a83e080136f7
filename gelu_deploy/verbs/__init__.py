"""What the command line and Python call: plain data in, plain data out; no printing, no exiting, no asking."""
