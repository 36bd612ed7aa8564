"""The services of a cluster on one node, and its files.

Everything is below one directory, by the minion's option ``sahara``:

    sahara:
      directory: /var/lib/sahara
      host: 10.0.0.7   # where the other nodes reach this one

The programs come from the master's file server: ``salt://sahara/mini_hadoop.py``, in the place of
Hadoop, and the binaries of jobs from ``salt://sahara/binaries``.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

from salt.exceptions import CommandExecutionError

_SERVICES = ('namenode', 'datanode', 'resourcemanager', 'nodemanager')
_START_SECONDS = 30
_STOP_SECONDS = 30


def __virtual__():
    if shutil.which('python3') is None:
        return False, 'python3 was not found'
    return True


def configure(master, namenode_port, resourcemanager_port):
    """Writes down where the services of the cluster are. Services that run keep what they read."""
    _root().mkdir(mode=0o700, parents=True, exist_ok=True)
    cluster = {'name': __grains__['id'], 'host': _option('host'),
               'namenode': [master, namenode_port],
               'resourcemanager': [master, resourcemanager_port]}
    (_root() / 'cluster.json').write_text(json.dumps(cluster))
    return sorted(cluster)


def put(name, files):
    """Copies files of ``salt://sahara/input`` into the input of this name, as `hdfs dfs -put` does."""
    for file in files:
        _fetch('salt://sahara/input/%s' % file, _root() / 'data' / name / file)
    return sorted(it.name for it in (_root() / 'data' / name).iterdir())


def stage(binaries):
    """Copies binaries of jobs from ``salt://sahara/binaries``."""
    for name in binaries:
        _fetch('salt://sahara/binaries/%s' % name, _root() / 'binaries' / name)
    return sorted(binaries)


def start(service):
    """Starts a service unless it runs. Gives its process id."""
    running = pid(service)
    if running is not None:
        return running
    program = _root() / 'mini_hadoop.py'
    _fetch('salt://sahara/mini_hadoop.py', program)
    (_root() / ('%s.pid' % service)).unlink(missing_ok=True)
    with open(_log(service), 'wb') as log:
        # A session of its own: it outlives the minion.
        process = subprocess.Popen(['python3', str(program), service, str(_root())],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   start_new_session=True)
    end = time.monotonic() + _START_SECONDS
    while pid(service) is None:
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            raise CommandExecutionError('%s did not start: %s' % (service, _log_end(service)))
        time.sleep(0.1)
    return pid(service)


def stop(service):
    """Stops a service, and waits until it has ended. Gives whether it ran."""
    running = pid(service)
    if running is None:
        return False
    os.kill(running, signal.SIGTERM)
    end = time.monotonic() + _STOP_SECONDS
    while pid(service) is not None:
        if time.monotonic() > end:
            raise CommandExecutionError('%s (%d) has not ended' % (service, running))
        time.sleep(0.1)
    return True


def services():
    """The services that run on this node, in the order in which they started."""
    running = [(name, pid(name)) for name in _SERVICES]
    return [name for name, number in sorted(((name, number) for name, number in running if number),
                                            key=lambda it: _started(it[1]))]


def await_nodes(names):
    """Waits until the namenode and the resourcemanager have heard from these nodes."""
    end = time.monotonic() + _START_SECONDS
    while True:
        missing = [name for service in ('namenode', 'resourcemanager') if pid(service)
                   for name in names if name not in ask(service, 'nodes')]
        if not missing:
            return nodes()
        if time.monotonic() > end:
            raise CommandExecutionError('not heard from %s' % ', '.join(missing))
        time.sleep(0.2)


def nodes():
    """The nodes that live, by the service that hears from them. On the node of the masters only."""
    return {service: sorted(ask(service, 'nodes')) for service in ('namenode', 'resourcemanager')
            if pid(service)}


def pid(service):
    """Process id of a service; None where it does not run."""
    try:
        number = int((_root() / ('%s.pid' % service)).read_text())
        arguments = pathlib.Path('/proc/%d/cmdline' % number).read_bytes().split(b'\0')
        state = _stat(number)[0]
    except (OSError, ValueError):
        return None
    # The number may belong to another program since, and a zombie has ended.
    return number if state != 'Z' and os.fsencode(str(_root())) in arguments else None


def ask(service, path, body=None):
    """Calls a service of this cluster."""
    host, port = json.loads((_root() / 'cluster.json').read_text())[service]
    request = urllib.request.Request('http://%s:%d/%s' % (host, port, path),
                                     json.dumps(body or {}).encode())
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise CommandExecutionError(json.load(error)) from None
    except OSError as error:
        raise CommandExecutionError('%s does not answer: %s' % (service, error)) from None


def output(job_id):
    """What a job wrote."""
    return (_root() / 'output' / job_id / 'part-00000').read_text()


def _option(name):
    return __opts__.get('sahara', {}).get(name, {'directory': '/var/lib/sahara', 'host': '127.0.0.1'}[name])


def _root():
    return pathlib.Path(_option('directory'))


def _log(service):
    return _root() / ('%s.log' % service)


def _log_end(service):
    lines = _log(service).read_text(errors='replace').strip().splitlines()
    return lines[-1] if lines else 'it said nothing'


def _fetch(url, place):
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not __salt__['cp.get_file'](url, str(place)):
        raise CommandExecutionError('the file server has no %s' % url)


def _stat(number):
    return pathlib.Path('/proc/%d/stat' % number).read_text().rpartition(')')[2].split()


def _started(number):
    return int(_stat(number)[19])
