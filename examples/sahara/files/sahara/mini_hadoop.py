"""A stand-in for Hadoop, which Debian does not have: four services that are real processes.

    python3 mini_hadoop.py namenode|datanode|resourcemanager|nodemanager DIRECTORY

DIRECTORY has ``cluster.json`` (addresses), ``data/`` (input of this node), ``binaries/``, ``output/``.
A datanode starts only if its namenode answers; a nodemanager only if the resourcemanager answers and
the datanode of its node runs. The resourcemanager runs jobs: each node maps its own input files, one
process a file, and the resourcemanager reduces what they gave. It speaks HTTP on the addresses of
``cluster.json``, without authentication.
"""

import http.server
import json
import os
import pathlib
import socketserver
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

LIVE_SECONDS = 3.0
BEAT_SECONDS = 0.5


def main(service, directory):
    root = pathlib.Path(directory)
    cluster = json.loads((root / 'cluster.json').read_text())
    makers = {'namenode': Registry, 'datanode': DataNode, 'resourcemanager': ResourceManager,
              'nodemanager': NodeManager}
    node = makers[service](root, cluster)
    host, port = cluster[service] if service in cluster else (cluster['host'], 0)
    server = Server((host, port), handler_of(node))
    node.start('http://%s:%d' % server.server_address)
    (root / ('%s.pid' % service)).write_text(str(os.getpid()))
    server.serve_forever()


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    allow_reuse_address = True


def handler_of(node):
    """Calls ``node.do_<first word of the path>`` with the rest of it and the body."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            name, _, rest = self.path.strip('/').partition('/')
            body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
            try:
                status, answer = 200, getattr(node, 'do_' + name)(rest, body)
            except Exception as error:  # whatever it is, the caller is told
                status, answer = 500, str(error)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header('Content-Length', str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args):
            pass

    return Handler


def ask(url, path, body=None, timeout=10):
    """Calls another service. An answer that says no is an error."""
    request = urllib.request.Request('%s/%s' % (url, path), json.dumps(body or {}).encode())
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise RuntimeError(json.load(error)) from None


class Registry:
    """Knows the nodes that sent a heartbeat lately. A namenode is nothing else."""

    def __init__(self, root, cluster):
        self.root, self.cluster = root, cluster
        self.nodes, self.lock = {}, threading.Lock()

    def start(self, url):
        pass

    def do_beat(self, name, body):
        with self.lock:
            self.nodes[name] = (body['url'], time.monotonic())

    def do_nodes(self, _rest, _body):
        return self.live()

    def live(self):
        since = time.monotonic() - LIVE_SECONDS
        with self.lock:
            return {name: url for name, (url, at) in sorted(self.nodes.items()) if at > since}


class Node:
    """Sends heartbeats to a registry, the first of them before it serves."""

    registry = ''

    def __init__(self, root, cluster):
        self.root, self.name = root, cluster['name']
        self.target = 'http://%s:%d' % tuple(cluster[self.registry])

    def start(self, url):
        self.beat(url)
        threading.Thread(target=self.beats, args=(url,), daemon=True).start()

    def beat(self, url):
        ask(self.target, 'beat/' + self.name, {'url': url}, timeout=5)

    def beats(self, url):
        while True:
            time.sleep(BEAT_SECONDS)
            try:
                self.beat(url)
            except (OSError, RuntimeError):
                pass  # it may come back


class DataNode(Node):
    registry = 'namenode'


class NodeManager(Node):
    """Runs map tasks on the files of its node."""

    registry = 'resourcemanager'

    def __init__(self, root, cluster):
        super().__init__(root, cluster)
        self.running, self.killed = {}, set()
        pid = int((root / 'datanode.pid').read_text())
        os.kill(pid, 0)

    def do_inputs(self, name, _body):
        return sorted(it.name for it in (self.root / 'data' / name).glob('*'))

    def do_map(self, job, body):
        path = self.root / 'data' / body['input'] / body['file']
        with open(path, 'rb') as source:
            task = start_binary(self.root, body['mapper'], body['args'], source)
        self.running.setdefault(job, []).append(task)
        if job in self.killed:
            task.kill()
        return finish_binary(task)

    def do_kill(self, job, _body):
        self.killed.add(job)
        for task in self.running.get(job, []):
            task.kill()


class ResourceManager(Registry):
    """Runs jobs on the nodes that live."""

    def __init__(self, root, cluster):
        super().__init__(root, cluster)
        self.jobs = {}

    def do_submit(self, name, body):
        with self.lock:
            if name not in self.jobs:
                self.jobs[name] = {'state': 'PREP', 'done': 0, 'tasks': 0, 'nodes': []}
                threading.Thread(target=self.run, args=(name, body), daemon=True).start()
        return self.do_status(name, body)

    def do_status(self, name, _body):
        with self.lock:
            if name not in self.jobs:
                raise RuntimeError('there is no job %s' % name)
            return dict(self.jobs[name])

    def do_kill(self, name, _body):
        with self.lock:
            job = self.jobs.setdefault(name, {'state': 'KILLED', 'done': 0, 'tasks': 0, 'nodes': []})
            if job['state'] in ('PREP', 'RUNNING'):
                job['state'] = 'KILLED'
        for url in self.live().values():
            ask(url, 'kill/' + name)
        return self.do_status(name, {})

    def run(self, name, body):
        try:
            nodes = self.live()
            files = {url: ask(url, 'inputs/' + body['input']) for url in nodes.values()}
            self.change(name, state='RUNNING', nodes=sorted(nodes),
                        tasks=sum(len(it) for it in files.values()))
            lines, failures = [], []
            threads = [threading.Thread(target=self.map, args=(name, body, url, names, lines, failures))
                       for url, names in files.items()]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if failures:
                raise RuntimeError(failures[0])
            if self.jobs[name]['state'] == 'RUNNING':
                self.reduce(name, body, lines)
                self.change(name, state='SUCCEEDED')
        except Exception as error:  # the job failed, not the service
            self.change(name, state='FAILED', reason=str(error))

    def map(self, name, body, url, names, lines, failures):
        for file in names:
            if failures or self.jobs[name]['state'] != 'RUNNING':
                return
            try:
                lines.extend(ask(url, 'map/' + name, dict(body, file=file), timeout=3600))
            except (OSError, RuntimeError) as error:
                failures.append(str(error))
                return
            with self.lock:
                self.jobs[name]['done'] += 1

    def reduce(self, name, body, lines):
        text = ''.join('%s\n' % it for it in sorted(lines)).encode()
        task = start_binary(self.root, body['reducer'], [], subprocess.PIPE)
        output = self.root / 'output' / name
        output.mkdir(parents=True)
        result = finish_binary(task, text)
        (output / 'part-00000').write_text(''.join('%s\n' % it for it in result))
        (output / '_SUCCESS').touch()

    def change(self, name, **fields):
        """A job that was killed stays so."""
        with self.lock:
            if self.jobs[name]['state'] != 'KILLED':
                self.jobs[name].update(fields)


def start_binary(root, name, args, source):
    return subprocess.Popen([sys.executable, str(root / 'binaries' / name), *args], stdin=source,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish_binary(task, text=None):
    out, err = task.communicate(text)
    if task.returncode != 0:
        end = err.decode(errors='replace')[-500:].strip()
        raise RuntimeError('a task ended with %d: %s' % (task.returncode, end))
    return out.decode().splitlines()


if __name__ == '__main__':
    main(*sys.argv[1:])
