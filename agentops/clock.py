"""The clock: ``python -m agentops.clock``. It rings tasks by name and knows none of them, so it loads neither Django's
apps nor ours: it is there in a third of a second and takes a third of the memory of `celery beat`.
"""

from celery.apps.beat import Beat

from agentops.celery import app


class Clock(Beat):
    """Celery's beat without the modules that hold the tasks."""

    def init_loader(self) -> None:
        self.app.finalize()


if __name__ == "__main__":  # every entry is a plain interval, so it keeps no file
    Clock(app=app, quiet=True, loglevel="WARNING", scheduler_cls="celery.beat:Scheduler").run()
