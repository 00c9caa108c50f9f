"""The judge: from rows to block values, from values to a verdict. Pure: no I/O, no clock.

``values`` reads rows, ``eprocess`` weighs differences, ``verdict`` rules, ``trips`` act at once,
``carry_over`` checks that blocks are long enough.
"""
