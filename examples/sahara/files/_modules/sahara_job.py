"""Jobs of a cluster: on the node of the resourcemanager.

Progress and results are signals: the event ``heat/<alias>``, which the bridge carries to whoever
registered a handle of this alias.
"""

import time

from salt.exceptions import CommandExecutionError

_ENDS = ('SUCCEEDED', 'FAILED', 'KILLED')
_POLL_SECONDS = 0.3


def run(job_id, input, mapper, reducer, args=None, alias=None):
    """Submits a job and follows it to its end. The same id is the same job."""
    # `input` is the name that Sahara has for it.
    body = {'input': input, 'mapper': mapper, 'reducer': reducer, 'args': args or []}
    told = None
    status = __salt__['sahara_cluster.ask']('resourcemanager', 'submit/' + job_id, body)
    while True:
        if alias is not None and status != told:
            _tell(alias, job_id, status)
            told = status
        if status['state'] in _ENDS:
            break
        time.sleep(_POLL_SECONDS)
        status = status_of(job_id)
    if status['state'] != 'SUCCEEDED':
        raise CommandExecutionError('%s %s: %s' % (job_id, status['state'], status.get('reason', '')))
    return dict(status, output=__salt__['sahara_cluster.output'](job_id))


def status_of(job_id):
    """State, number of tasks and how many are done."""
    return __salt__['sahara_cluster.ask']('resourcemanager', 'status/' + job_id)


def kill(job_id):
    """Ends a job and its tasks; one that has ended stays as it is."""
    return __salt__['sahara_cluster.ask']('resourcemanager', 'kill/' + job_id)


def _tell(alias, job_id, status):
    data = {'job': job_id, 'state': status['state'], 'done': status['done'],
            'tasks': status['tasks'], 'nodes': status['nodes']}
    if status['state'] == 'SUCCEEDED':
        data['output'] = __salt__['sahara_cluster.output'](job_id)
    signal = {'status': 'FAILURE' if status['state'] in ('FAILED', 'KILLED') else 'SUCCESS', 'data': data}
    if 'reason' in status:
        signal['reason'] = status['reason']
    __salt__['event.send']('heat/' + alias, signal)
