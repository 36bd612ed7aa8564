"""Calls named commands and plans of a saltbridge master over HTTP.

One module of the standard library, Python 3.8 and later. Errors are BridgeError, with the code of
docs/errors.md. Trusts the system's certificates, or those of ``ca_file``.

    bridge = Bridge('https://salt:8000', 'trove', password, eauth='pam')
    outcome = bridge.run('mysql.create-database', 'db-7', {'name': 'shop'},
                         idempotency_key='instance-7-database-shop')
    assert outcome['status'] == 'succeeded'

With a token of Keystone's in place of a name and a password, for instance that of a session of
keystoneauth: ``Bridge('https://salt:8000', token=session.get_token)``.

With ``retries`` a request whose answer is lost, or that is told to come later, is sent again where
that is safe; a call without an idempotency key then gets one.

With ``urls``, those of the masters of a cluster, requests go to one master and on to the next when it
cannot be reached or ends: what was not sent, what only reads, and calls with their idempotency key.
``events`` goes on after the last event. Anything else that may have been done fails with
ERR_OUTCOME_UNKNOWN.
"""

from __future__ import annotations

import base64
import copy
import errno
import http.client
import ipaddress
import json
import random
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Union

__all__ = ['AgentException', 'Bridge', 'BridgeError', 'MuranoAgent', 'new_key']

Json = Dict[str, Any]
Target = Union[str, Sequence[str]]
Token = Union[str, Callable[[], str]]

_RESPOND_ASYNC = {'Prefer': 'respond-async'}
_RETRIED_STATUS = (408, 425, 429, 502, 503, 504)
_REFUSED_FOR_NOW = ('ERR_CLUSTER_ALONE', 'ERR_MASTER_DRAINING')
_NOT_SENT = (ConnectionRefusedError, socket.gaierror, ssl.SSLCertVerificationError)
_NOT_SENT_CODES = (errno.EHOSTUNREACH, errno.ENETUNREACH)
# Behind what follows it, readers of events are told that some may be missing.
_NO_EVENT = 'none'
_FIRST_DELAY = 0.2
_LONGEST_DELAY = 10.0


def new_key() -> str:
    """An idempotency key that nobody else has: keep it, and the call can be repeated with it."""
    return uuid.uuid4().hex


class BridgeError(Exception):
    """The bridge refused, or could not be asked.

    ``code`` is that of docs/errors.md. ``status`` is that of HTTP; None: there was no answer.
    ``was_sent``: whether the bridge may have begun with what it was asked for.
    """

    def __init__(self, code: str, message: str, status: Optional[int] = None,
                 was_sent: bool = True) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.was_sent = was_sent


class Bridge:
    """A bridge, as a user of its master, or a project of Keystone's.

    Logs in when it is first asked, and again when it must.
    """

    def __init__(self, url: Optional[str] = None, username: Optional[str] = None,
                 password: Optional[str] = None, eauth: str = 'pam',
                 token: Optional[Token] = None, ca_file: Optional[str] = None,
                 timeout: float = 60, retries: int = 0,
                 urls: Optional[Sequence[str]] = None) -> None:
        """``token`` in place of a name and a password: the bridge's or Keystone's, or a function that
        gives one and is asked again where that is refused; ``timeout``: seconds of silence;
        ``retries``: how often a request is sent again, after growing delays; ``urls`` in place of
        ``url``: the masters of a cluster.
        """
        if (url is None) == (urls is None) or isinstance(urls, str):
            raise ValueError('expected either url, a text, or urls, a list')
        given = [url] if url is not None else list(urls or ())
        if not given:
            raise ValueError('urls: expected at least one address')
        for address in given:
            _require_safe(address)
        self._urls = [address.rstrip('/') for address in given]
        self._at = 0
        self._credentials = {'username': username, 'password': password, 'eauth': eauth}
        self._new_token = token if callable(token) else None
        self._token: Optional[str] = None if callable(token) else token
        self._timeout = timeout
        self._retries = retries
        context = ssl.create_default_context(cafile=ca_file)
        # Nobody is led elsewhere with a token.
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context), _NoRedirects())

    # Commands.

    def commands(self) -> List[Json]:
        """The catalog: a list of maps."""
        return self._json('GET', '/bridge/v1/commands')['commands']

    def command(self, name: str) -> Json:
        """One command, with the schema of its parameters."""
        return self._json('GET', '/bridge/v1/commands/' + _segment(name))

    def stream(self, name: str, target: Target, params: Optional[Mapping[str, Any]] = None,
               target_type: Optional[str] = None, idempotency_key: Optional[str] = None,
               project: Optional[str] = None, deadline: Optional[int] = None) -> Iterator[Json]:
        """Calls a command; gives what it tells: ``begun``, ``published``, ``result``, ``outcome``.

        ``target``: a glob on ids, or a list of them. ``deadline``: milliseconds since 1970.
        """
        body = self._call(target=target, targetType=target_type, params=params or {},
                          idempotencyKey=idempotency_key, project=project, deadline=deadline)
        return self._lines('POST', '/bridge/v1/commands/%s/run' % _segment(name), body)

    def run(self, name: str, target: Target, params: Optional[Mapping[str, Any]] = None,
            **more: Any) -> Json:
        """Calls a command and waits for its outcome: a map with ``status`` and ``results``."""
        more = self._with_key(more)
        return self._outcome(lambda: self.stream(name, target, params, **more))

    def start(self, name: str, target: Target, params: Optional[Mapping[str, Any]] = None,
              target_type: Optional[str] = None, idempotency_key: Optional[str] = None,
              project: Optional[str] = None, deadline: Optional[int] = None) -> str:
        """Calls a command and does not wait for its end: the id of the run."""
        body = self._call(target=target, targetType=target_type, params=params or {},
                          idempotencyKey=idempotency_key, project=project, deadline=deadline)
        return self._json('POST', '/bridge/v1/commands/%s/run' % _segment(name), body,
                          _RESPOND_ASYNC)['id']

    def follow(self, run_id: str) -> Iterator[Json]:
        """What a run of this user's tells, from its beginning."""
        return self._lines('GET', '/bridge/v1/runs/' + _segment(run_id))

    def wait(self, run_id: str) -> Json:
        """The outcome of a run of this user's."""
        return self._outcome(lambda: self.follow(run_id))

    def outcome(self, run_id: str) -> Optional[Json]:
        """The outcome of a run of this user's; None while it is active. Answers at once."""
        return self._json('GET', '/bridge/v1/runs/%s/outcome' % _segment(run_id)).get('outcome')

    def cancel(self, run_id: str) -> Json:
        """Ends a run of this user's. Gives its outcome."""
        return self._json('DELETE', '/bridge/v1/runs/' + _segment(run_id))

    # Plans.

    def plans(self) -> List[Json]:
        """The plans of the catalog: a list of maps."""
        return self._json('GET', '/bridge/v1/plans')['plans']

    def plan(self, name: str) -> Json:
        """One plan, with its groups, its steps and the schema of its parameters."""
        return self._json('GET', '/bridge/v1/plans/' + _segment(name))

    def stream_plan(self, name: str, groups: Mapping[str, Any],
                    params: Optional[Mapping[str, Any]] = None,
                    idempotency_key: Optional[str] = None, project: Optional[str] = None,
                    deadline: Optional[int] = None) -> Iterator[Json]:
        """Calls a plan; gives what it tells: ``begun``, ``step``, ``result``, ``outcome``.

        ``groups``: by name a glob on ids, or a list of them. ``deadline``: milliseconds since 1970.
        """
        body = self._call(groups=groups, params=params or {}, idempotencyKey=idempotency_key,
                          project=project, deadline=deadline)
        return self._lines('POST', '/bridge/v1/plans/%s/run' % _segment(name), body)

    def run_plan(self, name: str, groups: Mapping[str, Any],
                 params: Optional[Mapping[str, Any]] = None, **more: Any) -> Json:
        """Calls a plan and waits for its outcome: a map with ``status``, ``steps``, ``undone``."""
        more = self._with_key(more)
        return self._outcome(lambda: self.stream_plan(name, groups, params, **more))

    def start_plan(self, name: str, groups: Mapping[str, Any],
                   params: Optional[Mapping[str, Any]] = None,
                   idempotency_key: Optional[str] = None, project: Optional[str] = None,
                   deadline: Optional[int] = None) -> str:
        """Calls a plan and does not wait for its end: the id of the run."""
        body = self._call(groups=groups, params=params or {}, idempotencyKey=idempotency_key,
                          project=project, deadline=deadline)
        return self._json('POST', '/bridge/v1/plans/%s/run' % _segment(name), body,
                          _RESPOND_ASYNC)['id']

    def follow_plan(self, run_id: str) -> Iterator[Json]:
        """What a run of a plan of this user's tells, from its beginning."""
        return self._lines('GET', '/bridge/v1/plan-runs/' + _segment(run_id))

    def wait_plan(self, run_id: str) -> Json:
        """The outcome of a run of a plan of this user's."""
        return self._outcome(lambda: self.follow_plan(run_id))

    def plan_outcome(self, run_id: str) -> Optional[Json]:
        """The outcome of a run of a plan; None while it is active. Answers at once."""
        path = '/bridge/v1/plan-runs/%s/outcome' % _segment(run_id)
        return self._json('GET', path).get('outcome')

    def cancel_plan(self, run_id: str, undo: bool = True) -> Json:
        """Ends a run of a plan, and takes back what is done unless ``undo`` is false."""
        query = '' if undo else '?undo=false'
        return self._json('DELETE', '/bridge/v1/plan-runs/%s%s' % (_segment(run_id), query))

    # Enrolment.

    def enrol(self, minion_id: str, **more: Any) -> Json:
        """Begins an enrolment: a map with ``enrolment`` (its ``number``), ``ticket`` and ``userData``.

        ``more``: the fields of ``POST /bridge/v1/enrolments``, such as ``project`` and ``grains``.
        """
        return self._json('POST', '/bridge/v1/enrolments', _without_none(dict(more, id=minion_id)))

    def enrolment(self, number: str) -> Json:
        """One enrolment: a map with ``state`` and, where it failed, ``reason``."""
        return self._json('GET', '/bridge/v1/enrolments/' + _segment(number))

    def retire(self, number: str) -> None:
        """Ends an enrolment, and the key and session of its minion."""
        self._json('POST', '/bridge/v1/enrolments/%s/retire' % _segment(number), {})

    # Handles of Heat, and the signals that are not delivered yet.

    def add_handle(self, alias: str, minions: Sequence[str], **more: Any) -> Json:
        """Registers a handle; ``more``: fields of ``POST /bridge/v1/handles``, as ``signal``."""
        return self._json('POST', '/bridge/v1/handles',
                          _without_none(dict(more, alias=alias, minions=list(minions))))

    def replace_handle(self, alias: str, minions: Sequence[str], **more: Any) -> Json:
        """Registers a handle in the place of one of this alias."""
        return self._json('PUT', '/bridge/v1/handles/' + _segment(alias),
                          _without_none(dict(more, minions=list(minions))))

    def handles(self) -> List[Json]:
        """The handles of this user."""
        return self._json('GET', '/bridge/v1/handles')

    def handle(self, alias: str) -> Json:
        """One of them."""
        return self._json('GET', '/bridge/v1/handles/' + _segment(alias))

    def remove_handle(self, alias: str) -> Json:
        """Forgets a handle and its secrets."""
        return self._json('DELETE', '/bridge/v1/handles/' + _segment(alias))

    def outbox(self, alias: str) -> List[Json]:
        """Signals of a handle that are not delivered."""
        return self._json('GET', '/bridge/v1/handles/%s/outbox' % _segment(alias))

    def drop_outbox(self, alias: str) -> List[Json]:
        """Forgets the signals of a handle."""
        return self._json('DELETE', '/bridge/v1/handles/%s/outbox' % _segment(alias))

    def retry_outbox(self, alias: str) -> List[Json]:
        """Tries signals that were given up again."""
        return self._json('POST', '/bridge/v1/handles/%s/outbox/retry' % _segment(alias), {})

    # Stacks, whose software deployments the bridge runs.

    def add_stack(self, name: str, **fields: Any) -> Json:
        """Registers a stack; ``fields``: those of ``POST /bridge/v1/stacks``, as ``servers``."""
        return self._json('POST', '/bridge/v1/stacks', _without_none(dict(fields, name=name)))

    def replace_stack(self, name: str, **fields: Any) -> Json:
        """Registers a stack in the place of one of this name."""
        return self._json('PUT', '/bridge/v1/stacks/' + _segment(name), _without_none(fields))

    def stacks(self) -> List[Json]:
        """The stacks of this user."""
        return self._json('GET', '/bridge/v1/stacks')

    def stack(self, name: str) -> Json:
        """One of them: its servers and ``deployments``."""
        return self._json('GET', '/bridge/v1/stacks/' + _segment(name))

    def remove_stack(self, name: str) -> Json:
        """Forgets a stack and its secrets."""
        return self._json('DELETE', '/bridge/v1/stacks/' + _segment(name))

    # Execution plans of Murano; see MuranoAgent.

    def execute(self, guest: str, execution_plan: str, signature: Optional[bytes] = None) -> Json:
        """The result of an execution plan, as Murano's agent gives it, whatever became of it.

        ``execution_plan`` is JSON; ``signature`` is of the guest's id and this text.
        """
        encoded = None if signature is None else base64.b64encode(signature).decode('ascii')
        body = _without_none({'execution_plan': execution_plan, 'signature': encoded})
        return self._json('POST', '/bridge/v1/murano/' + _segment(guest), body)

    # Events of the master.

    def events(self, *match: str, after: Optional[str] = None) -> Iterator[Json]:
        """Events whose tag meets one of these globs: maps with ``tag``, ``data`` and maybe ``id``.

        They are those that this user may read. Without globs: all of them. ``after``: the id of the
        last event that was read. Ends with the connection, and does not connect again by itself; with
        ``urls`` it goes on at the next master.
        """
        while True:
            asked = self._at
            try:
                for event in self._events(match, after):
                    after = event.get('id', after)
                    yield event
            except BridgeError as error:
                if error.code != 'ERR_BRIDGE_ENDED' or len(self._urls) == 1:
                    raise
            if len(self._urls) == 1:
                return
            self._leave(asked)
            after = after or _NO_EVENT
            time.sleep(_FIRST_DELAY)

    def _events(self, match: Sequence[str], after: Optional[str]) -> Iterator[Json]:
        query = [('match', it) for it in match]
        if after is not None:
            query.append(('last_event_id', after))
        path = '/events?' + urllib.parse.urlencode(query) if query else '/events'
        with self._ask('GET', path, headers={'Accept': 'text/event-stream'}) as answer:
            event: Json = {}
            for line in _read_lines(answer):
                name, _, value = line.rstrip('\r\n').partition(': ')
                if name == 'data':
                    event.update(json.loads(value))
                elif name == 'id':
                    event['id'] = value
                elif name == '' and event:
                    yield event
                    event = {}

    # Requests.

    def _call(self, **fields: Any) -> Json:
        """The body of a call."""
        if self._repeats() and fields['idempotencyKey'] is None:
            fields['idempotencyKey'] = new_key()
        return _without_none(fields)

    def _with_key(self, more: Mapping[str, Any]) -> Json:
        """The same key for each time that a call is sent."""
        if self._repeats() and more.get('idempotency_key') is None:
            return dict(more, idempotency_key=new_key())
        return dict(more)

    def _repeats(self) -> bool:
        return self._retries > 0 or len(self._urls) > 1

    def _leave(self, asked: int) -> None:
        """Asks the next master from now on, unless another thread has left that one already."""
        if self._at == asked:
            self._at = (asked + 1) % len(self._urls)

    def _outcome(self, call: Callable[[], Iterator[Json]]) -> Json:
        """Follows the run again where the answer ends before it: its key or its id is the same."""
        delays = self._delays()
        while True:
            asked = self._at
            try:
                return _outcome(call())
            except BridgeError as error:
                # _ask has repeated the others already.
                if error.code != 'ERR_BRIDGE_ENDED' or not _sleep(delays):
                    raise
                self._leave(asked)

    def _delays(self) -> Iterator[float]:
        # Each of the others is asked at once.
        yield from [0.0] * (len(self._urls) - 1)
        for count in range(self._retries):
            # Apart, so that clients of a master that was away do not all come at once.
            yield min(_LONGEST_DELAY, _FIRST_DELAY * 2 ** count) * random.uniform(0.5, 1)

    def _lines(self, method: str, path: str, body: Optional[Json] = None) -> Iterator[Json]:
        with self._ask(method, path, body) as answer:
            for line in _read_lines(answer):
                update = json.loads(line)
                if update.get('type') == 'error':
                    raise BridgeError(update.get('code'), update.get('message'))
                yield update

    def _json(self, method: str, path: str, body: Optional[Json] = None,
              headers: Optional[Mapping[str, str]] = None) -> Any:
        with self._ask(method, path, body, headers) as answer:
            try:
                return json.loads(answer.read().decode('utf-8'))
            except (OSError, ValueError, http.client.HTTPException) as error:
                raise BridgeError('ERR_BRIDGE_ANSWER', 'cannot be read: %s' % error) from error

    def _ask(self, method: str, path: str, body: Optional[Json] = None,
             headers: Optional[Mapping[str, str]] = None) -> Any:
        """Sends a request, and sends it again where that is safe."""
        is_safe = method == 'GET' or not {'idempotencyKey', 'execution_plan'}.isdisjoint(body or ())
        delays = self._delays()
        while True:
            asked = self._at
            try:
                return self._ask_once(method, path, body, headers)
            except BridgeError as error:
                if len(self._urls) > 1 and error.code in _REFUSED_FOR_NOW:
                    # Nothing was done.
                    error.was_sent = False
                is_transient = error.status is None or error.status in _RETRIED_STATUS
                may_repeat = is_safe or (len(self._urls) > 1 and not error.was_sent)
                if error.status is None and not may_repeat and len(self._urls) > 1:
                    raise _outcome_unknown(method, path, error) from error
                if not (may_repeat and (is_transient or not error.was_sent) and _sleep(delays)):
                    raise
                self._leave(asked)

    def _ask_once(self, method: str, path: str, body: Optional[Json],
                  headers: Optional[Mapping[str, str]]) -> Any:
        if self._token is None:
            self._log_in_first()
        try:
            return self._send(method, path, body, headers)
        except BridgeError as error:
            # The token has ended; nothing was done with it.
            if error.status != 401 or not self._may_log_in():
                raise
        self._log_in_first()
        return self._send(method, path, body, headers)

    def _log_in_first(self) -> None:
        """What is to be asked then was not sent where this fails."""
        try:
            self._log_in()
        except BridgeError as error:
            error.was_sent = False
            raise

    def _may_log_in(self) -> bool:
        return self._new_token is not None or self._credentials['username'] is not None

    def _log_in(self) -> None:
        if self._new_token is not None:
            self._token = self._new_token()
            return
        if self._credentials['username'] is None:
            raise BridgeError('ERR_EAUTH', 'expected a token, or a username and a password', 401)
        try:
            with self._send('POST', '/login', self._credentials, with_token=False) as answer:
                self._token = answer.headers.get('X-Auth-Token')
        except BridgeError as error:
            if error.status not in (401, 403):
                raise
            text = 'the log-in of %s (eauth %s) was refused' % (
                self._credentials['username'], self._credentials['eauth'])
            raise BridgeError('ERR_EAUTH', text, error.status) from error
        if not self._token:
            raise BridgeError('ERR_EAUTH', 'the log-in gave no token', 401)

    def _send(self, method: str, path: str, body: Optional[Mapping[str, Any]] = None,
              more: Optional[Mapping[str, str]] = None, with_token: bool = True) -> Any:
        headers = {'Accept': 'application/json', 'Content-Type': 'application/json', **(more or {})}
        if with_token:
            headers['X-Auth-Token'] = self._token
        data = None if body is None else json.dumps(body).encode('utf-8')
        request = urllib.request.Request(self._urls[self._at] + path, data, headers, method=method)
        try:
            return self._opener.open(request, timeout=self._timeout)
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(error.code, error.read(65536)) from None
        except (OSError, http.client.HTTPException) as error:
            text = '%s cannot be asked: %s' % (self._urls[self._at], error)
            raise BridgeError('ERR_BRIDGE_ANSWER', text, was_sent=_was_sent(error)) from error


class AgentException(Exception):
    """An execution plan was refused, or a script failed. Murano's engine has one of this name."""

    def __init__(self, error_code: int, message: Optional[str], additional_info: Any) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.additional_info = additional_info


class MuranoAgent:
    """The agent of one machine, for programs that have execution plans.

    Calls have the names and arguments of the agent in Murano's engine. Only entry points that the
    catalog of the bridge defines run; what is in the files of an execution plan never does.
    """

    def __init__(self, bridge: Bridge, guest: str,
                 sign: Optional[Callable[[bytes], bytes]] = None, timeout: float = 3600) -> None:
        """``guest``: the id of the minion; ``sign``: makes a signature (RSA, PKCS#1 v1.5, SHA-256)
        with the key of the project; ``timeout``: seconds, where a call names none.
        """
        self._bridge = bridge
        self._guest = guest
        self._sign = sign
        self._timeout = timeout

    def call(self, template: Mapping[str, Any], resources: Any,
             timeout: Optional[float] = None) -> Any:
        """Runs a template of an execution plan; ``resources.string(name)`` gives its files."""
        return self.call_raw(_from_template(template, resources), timeout)

    def send(self, template: Mapping[str, Any], resources: Any) -> None:
        """The same without its result."""
        self.send_raw(_from_template(template, resources))

    def call_raw(self, execution_plan: Mapping[str, Any], timeout: Optional[float] = None) -> Any:
        """What its body returns. Raises AgentException."""
        given = dict(execution_plan)
        given.setdefault('ID', uuid.uuid4().hex)
        given.setdefault('FormatVersion', '2.0.0')
        given.setdefault('Stamp', int(time.time() * 10000))
        text = json.dumps(given)
        signed = (self._guest + text).encode('utf-8')
        bridge = copy.copy(self._bridge)
        bridge._timeout = self._timeout if timeout is None else timeout
        result = bridge.execute(self._guest, text, None if self._sign is None else self._sign(signed))
        body = result.get('Body')
        if result.get('ErrorCode') != 0:
            error = body if isinstance(body, dict) else {}
            raise AgentException(result.get('ErrorCode', 1), error.get('Message'),
                                 error.get('AdditionalInfo'))
        return body

    def send_raw(self, execution_plan: Mapping[str, Any]) -> None:
        """The same without its result."""
        self.call_raw(execution_plan)

    def is_ready(self, timeout: float = 100) -> bool:
        """Whether the bridge takes execution plans for this machine."""
        try:
            self.call_raw({'Body': 'return', 'Scripts': {}, 'Files': {}}, timeout)
            return True
        except (AgentException, BridgeError):
            return False


def _from_template(template: Mapping[str, Any], resources: Any) -> Json:
    """A template names files; an execution plan has them, under ids of their own."""
    built: Json = copy.deepcopy(dict(template))
    files = built.setdefault('Files', {})
    ids = {entry['Name']: file_id for file_id, entry in files.items()}

    def place(file: Any) -> str:
        name, source = next(iter(file.items())) if isinstance(file, dict) else (file, file)
        is_base64 = source.startswith('<') and source.endswith('>')
        plain = source[1:-1] if is_base64 else source
        if name == source:
            name = plain
        if name not in ids:
            body = resources.string('scripts/' + plain)
            if isinstance(body, bytes) and not is_base64:
                body = body.decode('utf-8')
            if is_base64:
                raw = body if isinstance(body, bytes) else body.encode('utf-8')
                body = base64.b64encode(raw).decode('ascii')
            ids[name] = uuid.uuid4().hex
            files[ids[name]] = {'Name': name, 'BodyType': 'Base64' if is_base64 else 'Text',
                                'Body': body}
        return ids[name]

    for script in built.get('Scripts', {}).values():
        if script.get('Type', 'Application') == 'Application':
            script['EntryPoint'] = place(script['EntryPoint'])
        script['Files'] = [place(file) for file in script.get('Files', [])]
    return built


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any,
                         newurl: Any) -> None:
        return None


def _require_safe(url: str) -> None:
    """Raises ValueError where passwords and tokens would go over a network in the clear."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == 'http' and not _is_this_host(parts.hostname or ''):
        raise ValueError('url: expected https://; http:// is for this host alone')
    if parts.scheme not in ('http', 'https'):
        raise ValueError('url: expected https://')


def _is_this_host(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == 'localhost'


def _was_sent(error: Exception) -> bool:
    """Whether a request that failed may have arrived."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    is_early = isinstance(reason, OSError) and reason.errno in _NOT_SENT_CODES
    return not (isinstance(reason, _NOT_SENT) or is_early)


def _outcome_unknown(method: str, path: str, error: BridgeError) -> BridgeError:
    text = '%s %s: whether it was done is not known: %s' % (method, path, error)
    return BridgeError('ERR_OUTCOME_UNKNOWN', text)


def _outcome(updates: Iterator[Json]) -> Json:
    for update in updates:
        if update['type'] == 'outcome':
            return update['outcome']
    raise BridgeError('ERR_BRIDGE_ENDED', 'the answer ended before the run')


def _read_lines(answer: Any) -> Iterator[str]:
    try:
        for line in answer:
            yield line.decode('utf-8')
    except (OSError, http.client.HTTPException) as error:
        raise BridgeError('ERR_BRIDGE_ENDED', 'the answer ended: %s' % error) from error


def _sleep(delays: Iterator[float]) -> bool:
    """Waits for the next try; False: there is none."""
    delay = next(delays, None)
    if delay is None:
        return False
    time.sleep(delay)
    return True


def _refusal(status: int, body: bytes) -> BridgeError:
    try:
        error = json.loads(body.decode('utf-8'))['error']
        if isinstance(error, dict):
            return BridgeError(error.get('code'), error.get('message'), status)
        return BridgeError(error, 'refused', status)
    except (ValueError, KeyError, TypeError):
        return BridgeError('ERR_BRIDGE_ANSWER', 'answered with status %d' % status, status)


def _segment(text: str) -> str:
    return urllib.parse.quote(text, safe='')


def _without_none(body: Mapping[str, Any]) -> Json:
    return {key: value for key, value in body.items() if value is not None}
