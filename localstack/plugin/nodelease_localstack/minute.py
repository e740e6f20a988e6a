"""Shortens LocalStack's wait between two evaluations of schedules and alarms: NODELEASE_LOCALSTACK_MINUTE is its minute, in seconds.

Schedules of one minute run that often, and alarms are evaluated that often for each of their periods. Nothing else changes: what an alarm looks at
are still its own periods, and leases run out in real time.
"""
import os

from localstack.runtime import hooks

MINUTE = float(os.environ.get("NODELEASE_LOCALSTACK_MINUTE", 60))


@hooks.on_infra_start(should_load=MINUTE != 60)
def shorten_minutes():
    from localstack.services.cloudwatch import alarm_scheduler
    from localstack.services.events import scheduler
    from localstack.utils.scheduler import Scheduler

    def loop(self, *args):
        while not self._stop_event.is_set():
            for job in list(self.jobs):
                job.run()  # it logs errors
            self._stop_event.wait(timeout=MINUTE)

    class Alarms(Scheduler):
        def schedule(self, func, period=None, **more):
            return super().schedule(func, period=period and period * MINUTE / 60, **more)

    scheduler.JobScheduler.loop = loop
    alarm_scheduler.Scheduler = Alarms
