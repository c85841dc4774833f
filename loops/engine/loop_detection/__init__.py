"""Is the agent going in circles? Pure detectors over fingerprints of the last few steps (SPEC F1-F4).

``encoding.fingerprints`` makes two short strings of a step: what it did and what came of it. ``state.step_window``
keeps those of the last sixteen steps, so that looking costs the same at step 10 and at step 10,000. ``detectors`` look
at the window, each for one kind of loop; ``state.loop_escalation`` says how a loop is broken before a person is asked.
Who asks them: ``guard`` before every request to a model, and ``loops/monitor`` from outside.

A circle is told by results, not by actions: a step that learns or changes something is no circle, however much it looks
like the one before (docs/loop-detection.md has the figures).
"""
