"""The learner in the loop: what it may choose now, what it chooses, what it is taught.

``notes`` is what it keeps through a crash, ``menus`` what may be chosen, ``deciding`` draws,
``teaching`` learns from judged units, ``crediting`` keeps its safety budget and ``paying`` asks it,
``doubting`` is about what was kept on an engine that has changed since. Pure.
"""
