"""What follows a failure: try something different, step back, reflect, ask a person, or end with a report (SPEC E1-E4).

``errors`` says what class a failure is of. Here it meets the state of a run: ``attempts`` counts, ``classifying``
decides (``second_opinion`` asks a model where no rule is sure), ``acting`` performs the decision before the next
request, and ``objections`` keeps a call that failed from being run again as it is. ``silence``, ``denial`` and
``repair`` answer a model that calls nothing, a call that is not permitted, and a result that did not pass.
"""
