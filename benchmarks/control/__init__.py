"""What the loop is worth: the production loop on simulated engines, beside those it must beat.

==================  ================================================================================
``default``         boot settings, never touched
``static N``        the cap at N for the whole life; the best of them in hindsight is the rival
``law N``           the law "cap N while interactive requests come, else the top", from the start:
                    the best of them is the oracle over the loop's own action set
``loop``            ``controller/backtest``: mode ``auto``, the plant's proposal, a real trial
==================  ================================================================================

Every contender lives the same load (arrivals depend on the seed alone) on the same engine. Lives
are scored by U (``scoring.py``) after the loop has had its time to adapt, and the loop over the
whole life, too: what learning cost is in the table.
"""
