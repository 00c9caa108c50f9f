"""The C kernels: compiled once on the machine they run on, then loaded with ctypes.

A build is named by the hash of its sources, flags, compiler and CPU, so a changed machine never
loads code that was made for another one. ctypes releases the interpreter lock during a call.
"""
