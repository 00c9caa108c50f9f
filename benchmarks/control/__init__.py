"""What the loop is worth: the production loop on simulated engines, beside those it must beat.

==================  ================================================================================
``default``         boot settings, never touched
``static N``        the knob at N for the whole life; the best of them in hindsight is the rival
``law N``           the law "cap N while interactive requests come, else the top", from the start
``oracle``          the best of these in each stretch between two changes of the world, put in force
                    at the change, on the same engine with the same drain
``random_search``,  the learner's comparators, driving the knob every five seconds with no trial and
``aimd``,           no guard (``driving.py``)
``gradient``,
``formula``
``loop``            ``controller/backtest``: mode ``auto``, the plant's and the learner's proposals,
                    real trials
==================  ================================================================================

Every contender lives the same load (arrivals depend on the seed alone) on the same engine, and is
scored by U (``scoring.py``) after the loop has had its time to adapt; over the whole life, too:
what learning cost is in the table. ``summing.py`` says what counts as an unsafe decision.

Scenarios: ``processes.py`` (b, c, f to j) need nothing, ``replayed.py`` (a, d, e) read public
traces below the folder that ``TRIMTAB_DATA`` names, and are left out, by name, where it has none::

    make bench-control ARGS="--only c,j --seeds 2 --progress FILE --figures FOLDER"

``--progress``: a line of JSON a life; what this code has lived before is not lived again. Lives
without a controller count until the engine, the learner or this package change, the loop's until
anything of the product does; each line names its commit too.
"""
