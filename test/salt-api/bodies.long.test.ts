/** Valid and invalid bodies and heads of requests. */
import { connect } from 'node:net';
import test, { type ExecutionContext } from 'ava';
import { within } from '../helpers/deadline.ts';
import { type ApiAnswer, json, startApi } from '../helpers/salt-api.ts';

/**
 * Sends bytes unchanged.
 * @returns the bytes that are received until the connection ends
 */
async function sendRaw(t: ExecutionContext, port: number, text: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  socket.on('error', () => {});
  socket.write(text);
  const chunks: Buffer[] = [];
  socket.on('data', (chunk) => chunks.push(chunk));
  await new Promise<void>((resolve) => socket.once('close', () => resolve()));
  return Buffer.concat(chunks).toString('latin1');
}

test('commands are accepted as JSON, text, YAML and forms', async (t) => {
  const { ask, login } = await startApi(t, { minions: ['web1'] });
  const token = await login();
  const map = { client: 'local', tgt: 'web1', fun: 'test.arg', arg: ['one', 2] };
  const bodies: [type: string, body: unknown][] = [
    ['application/json', map],
    ['application/json; charset=utf-8', [map]],
    ['text/plain;charset=UTF-8', map],
    ['application/x-yaml', '- client: local\n  tgt: web1\n  fun: test.arg\n  arg: [one, 2]\n'],
    ['text/yaml', '{client: local, tgt: web1, fun: test.arg, arg: [one, 2]}'],
    ['application/x-www-form-urlencoded', 'client=local&tgt=web1&fun=test.arg&arg=one&arg=2'],
  ];
  for (const [type, body] of bodies) {
    const headers = { 'content-type': type, 'x-auth-token': token };
    const answer = await ask({ method: 'POST', path: '/', headers, body });
    const {
      return: [values],
    } = answer.json as { return: [{ web1: { args: unknown } }] };
    t.deepEqual(values.web1.args, ['one', 2], type);
  }
});

test('a form can contain typed arguments and keywords', async (t) => {
  const { ask, login } = await startApi(t, { minions: ['web1'] });
  const type = 'application/x-www-form-urlencoded';
  const headers = { 'content-type': type, 'x-auth-token': await login() };
  const body = 'client=local&tgt=web1&fun=test.arg&arg=3&arg=k%3Dv&kwarg=%7Ba%3A%201%7D';
  const answer = await ask({ method: 'POST', path: '/', headers, body });
  t.like(answer.json, { return: [{ web1: { args: [3], kwargs: { k: 'v', a: 1 } } }] });
});

test('unsupported Accept header: responses are JSON or YAML', async (t) => {
  const { ask, login } = await startApi(t, { minions: ['web1'] });
  const headers = { 'content-type': 'application/json', 'x-auth-token': await login() };
  const body = { client: 'local', tgt: 'web1', fun: 'test.ping' };
  const accepting = (accept: string): Promise<ApiAnswer> =>
    ask({ method: 'POST', path: '/', headers: { ...headers, accept }, body });
  const yaml = await accepting('application/x-yaml');
  t.is(yaml.text, 'return:\n- web1: true\n');
  t.regex(String(yaml.headers['content-type']), /^application\/x-yaml/);
  for (const accept of ['*/*', 'application/json, text/plain', 'text/html, */*;q=0.1']) {
    t.deepEqual((await accepting(accept)).json, { return: [{ web1: true }] });
  }
  t.is((await ask({ path: '/' })).status, 200);
});

test('no command runs if the client accepts no supported response type', async (t) => {
  const { run, ask, login, eventsDuring } = await startApi(t);
  const headers = { ...json(await login()), accept: 'application/xml' };
  t.truthy(run);
  const events = await eventsDuring(async () => {
    const body = { client: 'local', tgt: '*', fun: 'test.ping' };
    t.is((await ask({ method: 'POST', path: '/', headers, body })).status, 406);
  });
  t.deepEqual(events, []);
});

test('bodies without commands or with too many fields are refused', async (t) => {
  const { ask, login } = await startApi(t, { minions: [] });
  const token = await login();
  const deep = `${'['.repeat(40)}${']'.repeat(40)}`;
  const abyss = '['.repeat(200_000);
  const bomb = 'a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n';
  const wrong: [status: number, type: string | undefined, body: string][] = [
    [400, 'application/json', '[{'],
    [400, 'application/json', '"foo"'],
    [400, 'application/json', '{}'],
    [400, 'application/json', 'null'],
    [400, 'application/json', '[1]'],
    [400, 'application/json', ''],
    [400, 'application/json', '[{"client": "\\ud800"}]'],
    [400, 'application/json', `[{"client": ${deep}}]`],
    [400, 'application/json', abyss],
    [400, 'application/x-yaml', bomb],
    [400, 'application/x-yaml', 'a: !!python/object/apply:os.system [id]'],
    [400, 'application/x-yaml', 'client: !!binary aGk='],
    [400, 'application/x-yaml', '{{{'],
    [400, 'application/x-yaml', abyss],
    [400, 'text/plain', 'not json'],
    [406, 'application/xml', '<x/>'],
    [406, undefined, '{}'],
    [413, 'application/json', `["${'x'.repeat(16_777_216)}"]`],
    [400, 'application/x-yaml', '{client: a, client: b}'],
    [400, 'application/json', `[${'1,'.repeat(100_000)}1]`],
    [400, 'application/x-yaml', `[${'1,'.repeat(100_000)}1]`],
    [400, 'application/x-www-form-urlencoded', 'a=1&'.repeat(100_001)],
  ];
  for (const [status, type, body] of wrong) {
    const headers = {
      'x-auth-token': token,
      ...(type === undefined ? {} : { 'content-type': type }),
    };
    const answer = await ask({ method: 'POST', path: '/', headers, body });
    const note = `${type} ${body.slice(0, 40)}`;
    t.is(answer.status, status, note);
    const error = status === 406 ? 'ERR_HTTP_FORMAT' : 'ERR_HTTP_BODY';
    t.like(answer.json, { status, error }, note);
    t.regex(String(Object(answer.json).message), /^(?:invalid|the body) /, note);
  }
  t.is((await ask({ path: '/stats', headers: json(token) })).status, 200);
});

test('compressed bodies are refused', async (t) => {
  const { ask, login } = await startApi(t, { minions: [] });
  const headers = { ...json(await login()), 'content-encoding': 'gzip' };
  t.is((await ask({ method: 'POST', path: '/', headers, body: 'x' })).status, 406);
});

test('ambiguous requests are refused, and end the connection', async (t) => {
  const { port } = await startApi(t, { minions: [] });
  const head = 'POST / HTTP/1.1\r\nHost: localhost\r\n';
  for (const text of [
    `${head}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    `${head}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc`,
    `${head}Transfer-Encoding: chunked\r\n\r\nZZ\r\n`,
    `${head}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`,
    `${head}Content-Length : 3\r\n\r\nabc`,
    'GET / HTTP/1.1\r\nHost: localhost\r\nX-Nul: a\0b\r\n\r\n',
    `GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: ${'x'.repeat(20_000)}\r\n\r\n`,
    'GET /\0 HTTP/1.1\r\nHost: localhost\r\n\r\n',
    'NONSENSE / HTTP/1.1\r\nHost: localhost\r\n\r\n',
  ]) {
    const answer = await within('the end of a connection', sendRaw(t, port, text));
    // These requests do not reach a route, which would require a session, because nothing reads
    // them.
    t.regex(answer, /^HTTP\/1\.1 4(?:00|31) /, text.slice(0, 60));
  }
});

test('an unsupported method is refused with the supported methods', async (t) => {
  const { ask } = await startApi(t, { minions: [] });
  for (const [method, path, allow] of [
    ['GET', '/hook', 'POST'],
    ['DELETE', '/', 'GET, HEAD, POST'],
    ['POST', '/stats', 'GET, HEAD'],
    ['PUT', '/login/', 'GET, HEAD, POST'],
    ['OPTIONS', '/login', 'GET, HEAD, POST'],
  ] as const) {
    const answer = await ask({ method, path });
    t.is(answer.status, 405, path);
    t.is(answer.headers.allow, allow);
    t.is(answer.headers['set-cookie'], undefined);
  }
  t.is((await ask({ path: '/nosuch' })).status, 404);
  t.is((await ask({ method: 'HEAD', path: '/' })).status, 200);
});

test('only pages of listed origins may read responses', async (t) => {
  const options = { corsOrigin: ['https://ui.example'] };
  const { ask } = await startApi(t, { minions: [], options });
  const from = (origin: string, more = {}): Promise<ApiAnswer> =>
    ask({ method: 'OPTIONS', path: '/login', headers: { origin, ...more } });
  const asking = { 'access-control-request-method': 'POST' };
  const listed = await from('https://ui.example', asking);
  t.is(listed.status, 200);
  t.like(listed.headers, {
    'access-control-allow-origin': 'https://ui.example',
    'access-control-allow-credentials': 'true',
    'access-control-allow-methods': 'GET, POST',
    'access-control-max-age': '1400',
  });
  t.is(listed.text, '');
  for (const origin of ['https://ui.example.evil', 'http://ui.example', 'null', '*']) {
    const other = await from(origin, asking);
    t.is(other.headers['access-control-allow-origin'], undefined);
    t.is(other.headers['access-control-allow-methods'], undefined);
  }
  const { headers } = await ask({ path: '/', headers: { origin: 'https://ui.example' } });
  t.is(headers['access-control-expose-headers'], 'GET, POST');
});

test('a call with a long result causes no warning of Node.js', async (t) => {
  const pending = Array.from({ length: 1_500 }, (_, at) => `minion-${at}.example.org`);
  const { ask, login } = await startApi(t, { minions: [], pending });
  const headers = json(await login());
  const warnings: string[] = [];
  const note = ({ message }: Error): unknown => warnings.push(message);
  process.on('warning', note);
  t.teardown(() => process.off('warning', note));
  const answer = await ask({ method: 'POST', path: '/rpc/keys.list', headers, body: {} });
  t.is(answer.status, 200);
  t.is(JSON.parse(answer.text).result.length, pending.length);
  // Warnings are emitted in a later turn.
  await new Promise(setImmediate);
  t.deepEqual(warnings, []);
});

test('a body that never ends does not delay other requests', async (t) => {
  const { port, ask } = await startApi(t, { minions: [], options: { requestTimeoutMs: 2000 } });
  const slow = sendRaw(t, port, 'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{');
  t.is((await ask({ path: '/' })).status, 200);
  t.regex(await within('the end of a slow request', slow), /^HTTP\/1\.1 408 /);
});
