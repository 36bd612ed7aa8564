"""Calls named commands and plans of a saltbridge master over HTTP.

One module of the standard library, Python 3.8 and later. Errors are BridgeError, with the code of
docs/errors.md. Trusts the system's certificates, or those of ``ca_file``.

    bridge = Bridge('https://salt:8000', 'trove', password, eauth='pam')
    outcome = bridge.run('mysql.create-database', 'db-7', {'name': 'shop'},
                         idempotency_key='instance-7-database-shop')
    assert outcome['status'] == 'succeeded'

With a token of Keystone's in place of a name and a password, for instance that of a session of
keystoneauth: ``Bridge('https://salt:8000', token=session.get_token)``.
"""

import http.client
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request


_RESPOND_ASYNC = {'Prefer': 'respond-async'}


class BridgeError(Exception):
    """The bridge refused, or could not be asked."""

    def __init__(self, code, message, status=None):
        super().__init__(message)
        self.code = code
        self.status = status


class Bridge:
    """A bridge, as a user of its master, or a project of Keystone's.

    Logs in when it is first asked, and again when it must.
    """

    def __init__(self, url, username=None, password=None, eauth='pam', token=None, ca_file=None,
                 timeout=60):
        """``token`` in place of a name and a password: the bridge's or Keystone's, or a function that
        gives one and is asked again where that is refused; ``timeout``: seconds of silence.
        """
        if urllib.parse.urlsplit(url).scheme not in ('http', 'https'):
            raise ValueError('url: expected http:// or https://')
        self._url = url.rstrip('/')
        self._credentials = {'username': username, 'password': password, 'eauth': eauth}
        self._new_token = token if callable(token) else None
        self._token = None if callable(token) else token
        self._timeout = timeout
        context = ssl.create_default_context(cafile=ca_file)
        # Nobody is led elsewhere with a token.
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context), _NoRedirects())

    def commands(self):
        """The catalog: a list of maps."""
        return self._json('GET', '/bridge/v1/commands')['commands']

    def command(self, name):
        """One command, with the schema of its parameters."""
        return self._json('GET', '/bridge/v1/commands/' + _segment(name))

    def stream(self, name, target, params=None, target_type=None, idempotency_key=None,
               project=None, deadline=None):
        """Calls a command; gives what it tells: ``begun``, ``published``, ``result``, ``outcome``.

        ``target``: a glob on ids, or a list of them. ``deadline``: milliseconds since 1970.
        """
        body = _without_none({
            'target': target, 'targetType': target_type, 'params': params or {},
            'idempotencyKey': idempotency_key, 'project': project, 'deadline': deadline})
        return self._lines('POST', '/bridge/v1/commands/%s/run' % _segment(name), body)

    def run(self, name, target, params=None, **more):
        """Calls a command and waits for its outcome: a map with ``status`` and ``results``."""
        return _outcome(self.stream(name, target, params, **more))

    def start(self, name, target, params=None, target_type=None, idempotency_key=None,
              project=None, deadline=None):
        """Calls a command and does not wait for its end: the id of the run."""
        body = _without_none({
            'target': target, 'targetType': target_type, 'params': params or {},
            'idempotencyKey': idempotency_key, 'project': project, 'deadline': deadline})
        return self._json('POST', '/bridge/v1/commands/%s/run' % _segment(name), body,
                          _RESPOND_ASYNC)['id']

    def follow(self, run_id):
        """What a run of this user's tells, from its beginning."""
        return self._lines('GET', '/bridge/v1/runs/' + _segment(run_id))

    def wait(self, run_id):
        """The outcome of a run of this user's."""
        return _outcome(self.follow(run_id))

    def outcome(self, run_id):
        """The outcome of a run of this user's; None while it is active. Answers at once."""
        return self._json('GET', '/bridge/v1/runs/%s/outcome' % _segment(run_id)).get('outcome')

    def cancel(self, run_id):
        """Ends a run of this user's. Gives its outcome."""
        return self._json('DELETE', '/bridge/v1/runs/' + _segment(run_id))

    def plans(self):
        """The plans of the catalog: a list of maps."""
        return self._json('GET', '/bridge/v1/plans')['plans']

    def plan(self, name):
        """One plan, with its groups, its steps and the schema of its parameters."""
        return self._json('GET', '/bridge/v1/plans/' + _segment(name))

    def stream_plan(self, name, groups, params=None, idempotency_key=None, project=None,
                    deadline=None):
        """Calls a plan; gives what it tells: ``begun``, ``step``, ``result``, ``outcome``.

        ``groups``: by name a glob on ids, or a list of them. ``deadline``: milliseconds since 1970.
        """
        body = _without_none({
            'groups': groups, 'params': params or {}, 'idempotencyKey': idempotency_key,
            'project': project, 'deadline': deadline})
        return self._lines('POST', '/bridge/v1/plans/%s/run' % _segment(name), body)

    def run_plan(self, name, groups, params=None, **more):
        """Calls a plan and waits for its outcome: a map with ``status``, ``steps``, ``undone``."""
        return _outcome(self.stream_plan(name, groups, params, **more))

    def start_plan(self, name, groups, params=None, idempotency_key=None, project=None,
                   deadline=None):
        """Calls a plan and does not wait for its end: the id of the run."""
        body = _without_none({
            'groups': groups, 'params': params or {}, 'idempotencyKey': idempotency_key,
            'project': project, 'deadline': deadline})
        return self._json('POST', '/bridge/v1/plans/%s/run' % _segment(name), body,
                          _RESPOND_ASYNC)['id']

    def follow_plan(self, run_id):
        """What a run of a plan of this user's tells, from its beginning."""
        return self._lines('GET', '/bridge/v1/plan-runs/' + _segment(run_id))

    def wait_plan(self, run_id):
        """The outcome of a run of a plan of this user's."""
        return _outcome(self.follow_plan(run_id))

    def plan_outcome(self, run_id):
        """The outcome of a run of a plan; None while it is active. Answers at once."""
        path = '/bridge/v1/plan-runs/%s/outcome' % _segment(run_id)
        return self._json('GET', path).get('outcome')

    def cancel_plan(self, run_id, undo=True):
        """Ends a run of a plan, and takes back what is done unless ``undo`` is false."""
        query = '' if undo else '?undo=false'
        return self._json('DELETE', '/bridge/v1/plan-runs/%s%s' % (_segment(run_id), query))

    def enrol(self, minion_id, **more):
        """Begins an enrolment: a map with ``enrolment`` (its ``number``), ``ticket`` and ``userData``.

        ``more``: the fields of ``POST /bridge/v1/enrolments``, such as ``project`` and ``grains``.
        """
        return self._json('POST', '/bridge/v1/enrolments', _without_none(dict(more, id=minion_id)))

    def enrolment(self, number):
        """One enrolment: a map with ``state`` and, where it failed, ``reason``."""
        return self._json('GET', '/bridge/v1/enrolments/' + _segment(number))

    def retire(self, number):
        """Ends an enrolment, and the key and session of its minion."""
        self._json('POST', '/bridge/v1/enrolments/%s/retire' % _segment(number), {})

    def _lines(self, method, path, body=None):
        with self._ask(method, path, body) as answer:
            for line in answer:
                update = json.loads(line.decode('utf-8'))
                if update.get('type') == 'error':
                    raise BridgeError(update.get('code'), update.get('message'))
                yield update

    def _json(self, method, path, body=None, headers=None):
        with self._ask(method, path, body, headers) as answer:
            try:
                return json.loads(answer.read().decode('utf-8'))
            except (OSError, ValueError, http.client.HTTPException) as error:
                raise BridgeError('ERR_BRIDGE_ANSWER', 'cannot be read: %s' % error) from error

    def _ask(self, method, path, body=None, headers=None):
        if self._token is None:
            self._log_in()
        try:
            return self._send(method, path, body, headers)
        except BridgeError as error:
            # The token has ended; nothing was done with it.
            if error.status != 401 or not self._may_log_in():
                raise
        self._log_in()
        return self._send(method, path, body, headers)

    def _may_log_in(self):
        return self._new_token is not None or self._credentials['username'] is not None

    def _log_in(self):
        if self._new_token is not None:
            self._token = self._new_token()
            return
        if self._credentials['username'] is None:
            raise BridgeError('ERR_EAUTH', 'expected a token, or a username and a password')
        with self._send('POST', '/login', self._credentials, with_token=False) as answer:
            self._token = answer.headers.get('X-Auth-Token')
        if not self._token:
            raise BridgeError('ERR_EAUTH', 'the log-in gave no token')

    def _send(self, method, path, body=None, more=None, with_token=True):
        headers = {'Accept': 'application/json', 'Content-Type': 'application/json', **(more or {})}
        if with_token:
            headers['X-Auth-Token'] = self._token
        data = None if body is None else json.dumps(body).encode('utf-8')
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            return self._opener.open(request, timeout=self._timeout)
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error.code, error.read(65536)) from None
        except (OSError, http.client.HTTPException) as error:
            raise BridgeError('ERR_BRIDGE_ANSWER', 'cannot be asked: %s' % error) from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req, fp, code, msg, headers, newurl):
        return None


def _outcome(updates):
    for update in updates:
        if update['type'] == 'outcome':
            return update['outcome']
    raise BridgeError('ERR_BRIDGE_ANSWER', 'the answer ended before the run')


def _refusal(status, body):
    try:
        error = json.loads(body.decode('utf-8'))['error']
        if isinstance(error, dict):
            return BridgeError(error.get('code'), error.get('message'), status)
        return BridgeError(error, 'refused', status)
    except (ValueError, KeyError, TypeError):
        return BridgeError('ERR_BRIDGE_ANSWER', 'answered with status %d' % status, status)


def _segment(text):
    return urllib.parse.quote(text, safe='')


def _without_none(body):
    return {key: value for key, value in body.items() if value is not None}
