"""Sahara's job engine, by a saltbridge bridge: in place of the engine that speaks to Oozie over SSH.

``BridgeEngine`` has the methods of Sahara's ``service.edp.base_engine.JobEngine`` that start, poll and
cancel jobs. A job execution is a map as Sahara's objects have it: ``id``, ``job_configs`` with
``configs`` and ``args``, and, of its job, ``mains`` and ``libs`` (names of binaries in the file server).
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from saltbridge_bridge import Bridge, BridgeError

Map = Dict[str, Any]

# Sahara's names [sahara/utils/edp.py].
PENDING, SUCCEEDED, FAILED, KILLED = 'PENDING', 'SUCCEEDED', 'FAILED', 'KILLED'


class BridgeEngine:
    """Runs jobs on one cluster.

    ``master`` is the minion of the node with the resourcemanager, ``workers`` are the others. ``callback``
    is a webhook, ``{"url": …, "key": "whsec_…"}``, that is told of progress and results.
    """

    def __init__(self, bridge: Bridge, master: str, workers: Sequence[str],
                 callback: Optional[Mapping[str, str]] = None) -> None:
        self._bridge = bridge
        self._master = master
        self._workers = list(workers)
        self._callback = callback

    @staticmethod
    def get_supported_job_types() -> List[str]:
        return ['MapReduce.Streaming']

    def run_job(self, job_execution: Mapping[str, Any]) -> Tuple[str, str, None]:
        """Submits it. Gives the id of the run, by which the others find it, and its status.

        The same execution is the same run, however often an engine that was restarted submits it.
        """
        execution = str(job_execution['id'])
        mains, libs = list(job_execution['mains']), list(job_execution.get('libs', []))
        mapper, reducer = mains
        configs = job_execution['job_configs']
        params: Map = {'job_id': execution, 'input': configs['configs']['input'], 'mapper': mapper,
                       'reducer': reducer, 'binaries': mains + libs, 'args': configs.get('args', [])}
        if self._callback is not None:
            alias = 'sahara-%s' % execution
            params['alias'] = alias
            self._add_handle(alias)
        run = self._bridge.start_plan('sahara.execute-job',
                                      {'master': self._master, 'workers': self._workers}, params,
                                      idempotency_key='job-%s' % execution)
        return run, PENDING, None

    def get_job_status(self, job_execution: Mapping[str, Any]) -> Map:
        """Its status in Sahara's words, with the number of tasks and how many are done."""
        outcome = self._bridge.plan_outcome(str(job_execution['engine_job_id']))
        if outcome is not None and outcome['status'] == 'succeeded':
            return {'status': SUCCEEDED}
        if outcome is not None and outcome['status'] == 'cancelled':
            return {'status': KILLED}
        if outcome is not None:
            return {'status': FAILED, 'reason': _reason_of(outcome)}
        asked = self._bridge.run('sahara.job-status', [self._master],
                                 {'job_id': str(job_execution['id'])})
        result = asked['results'][0]
        # The cluster does not know it yet.
        if result['state'] != 'succeeded':
            return {'status': PENDING}
        status = result['return']
        return {'status': 'RUNNING' if status['state'] == 'RUNNING' else PENDING,
                'done': status['done'], 'tasks': status['tasks']}

    def cancel_job(self, job_execution: Mapping[str, Any]) -> Map:
        """Ends it with its tasks."""
        self._bridge.cancel_plan(str(job_execution['engine_job_id']))
        return self.get_job_status(job_execution)

    def _add_handle(self, alias: str) -> None:
        try:
            self._bridge.add_handle(alias, [self._master], signal=self._callback)
        except BridgeError as error:
            # It was submitted before.
            if error.code != 'ERR_HANDLE_EXISTS':
                raise


def _reason_of(outcome: Map) -> str:
    for step in outcome['steps']:
        for result in step.get('results', []):
            if result['state'] == 'failed':
                return str(result.get('return') or result.get('reason'))
    return str(outcome['status'])
