"""Training in rounds from a trainer that calls back, in the manner of the Hugging Face Trainer.

    trainer = Trainer(model, args, ..., callbacks=[causeway.OuterCallback(run="demo", preset="fast")])

It needs of the trainer what that one gives: on_train_begin, on_step_end and on_train_end, called with
(args, state, control, model=..., optimizer=..., **more) on every rank. Nothing of that package is imported.
"""

from .outer import Outer


class OuterCallback:
    """Takes what ``causeway.Outer`` takes after the model and the optimizer. ``outer`` is there from the
    first step on. Parameters are exchanged only after optimizer steps: gradient accumulation is no matter.
    """

    def __init__(self, *, run, **options):
        self._options = dict(options, run=run)
        self.outer = None

    def on_train_begin(self, args, state, control, model=None, optimizer=None, **unused):
        self.outer = Outer(getattr(model, "module", model), optimizer, **self._options)
        resumed = getattr(state, "global_step", 0)
        if resumed:
            self.outer.resume_at(resumed)
        return control

    def on_step_end(self, args, state, control, **unused):
        self.outer.step()
        return control

    def on_log(self, args, state, control, logs=None, **unused):
        if logs is not None and self.outer is not None:
            stats = self.outer.stats()
            logs.update({f"causeway_{key}": stats[key]
                         for key in ("rounds", "wire_bytes", "stall_s", "overhead_s", "compute_use")})
        return control

    def on_train_end(self, args, state, control, **unused):
        self.outer.finish()
        return control

    def __getattr__(self, name):
        # Events that nothing is done for; trainers call more of them as they grow.
        if name.startswith("on_"):
            return lambda args, state, control, **unused: control
        raise AttributeError(name)
