/** Integers beyond 2^53 keep every digit, in both directions, by every way in. */
import { request } from 'node:http';
import test from 'ava';
import { allow } from '../../acl/index.ts';
import { formatJson } from '../../cli/output/json.ts';
import { connectMaster } from '../../client/index.ts';
import { createBridge } from '../../heat-bridge/index.ts';
import type { MasterApi } from '../../master/index.ts';
import { writeJson } from '../../runtime/index.ts';
import { acl } from '../heat-bridge/stage.ts';
import { json, type RunningApi, startApi } from '../helpers/salt-api.ts';
import { directories } from '../helpers/vector-master.ts';

const integers = [2n ** 63n - 1n, -(2n ** 63n), 2n ** 64n - 1n, -(2n ** 53n) - 1n, 2n ** 53n];
const digits = integers.map(String);

const count = {
  name: 'demo.count',
  description: 'Gives back a number.',
  function: 'test.echo',
  parameters: { type: 'object', properties: { text: { type: 'integer', minimum: 0 } } },
};

const rule = allow('counts', {
  subject: { user: 'admin' },
  action: 'command',
  resource: { fun: 'demo.*' },
});

/** Which keep the digits of every number that they get, and give a float beside them. */
function start(t: Parameters<typeof startApi>[0]): Promise<RunningApi> {
  const bridge = createBridge({ commands: [count] });
  return startApi(t, {
    minions: ['web1'],
    config: { acl: acl([rule]) },
    extensions: [bridge],
    options: { plugins: [bridge.http] },
    functions: {
      'test.twice': ({ args }) => ({ args: [...args, ...args], float: 1e20 }),
      'test.echo': ({ kwargs }) => kwargs.text ?? null,
    },
  });
}

test('over salt-api, as JSON, as YAML and in a form', async (t) => {
  const { ask, login } = await start(t);
  const token = await login();
  const head = 'client=local&tgt=web1&fun=test.twice';
  const bodies: [type: string, body: string][] = [
    ['application/json', `{"client":"local","tgt":"web1","fun":"test.twice","arg":[${digits}]}`],
    [
      'application/x-yaml',
      `{client: local, tgt: web1, fun: test.twice, arg: [${digits.join(', ')}]}`,
    ],
    ['application/x-www-form-urlencoded', [head, ...digits.map((it) => `arg=${it}`)].join('&')],
  ];
  for (const [type, body] of bodies) {
    const headers = { 'x-auth-token': token, 'content-type': type };
    const answer = await ask({ method: 'POST', path: '/', headers, body });
    t.true(
      answer.text.includes(`[${[...digits, ...digits].join(', ')}]`),
      `${type} ${answer.text}`,
    );
    t.regex(answer.text, /"float": 1e\+20/);
    const yaml = { ...headers, accept: 'application/x-yaml' };
    const { text } = await ask({ method: 'POST', path: '/', headers: yaml, body });
    for (const it of digits) t.is(text.split(`- ${it}\n`).length, 3, `${type} ${text}`);
  }
});

test('what a caller sends has 64 bits; what a minion sends stays as it came', async (t) => {
  const { run, login } = await startApi(t, {
    minions: ['web1'],
    functions: { 'test.large': () => 2n ** 70n },
  });
  const token = await login();
  for (const beyond of ['18446744073709551616', '-9223372036854775809']) {
    const body = `{"client":"local","tgt":"web1","fun":"test.arg","arg":[${beyond}]}`;
    const { status, json: answer } = await run(token, body);
    t.is(status, 400);
    t.like(answer, { message: 'expected JSON: an integer beyond 64 bits' });
  }
  const { text } = await run(token, { client: 'local', tgt: 'web1', fun: 'test.large' });
  t.is(text, `{"return": [{"web1": "${2n ** 70n}"}]}`);
});

test('by the local socket and over HTTP, as TypeScript has them', async (t) => {
  const { master, directory, port, login } = await start(t);
  const { token } = await master.logins.login({
    username: 'admin',
    password: 's3cret',
    eauth: 'sharedsecret',
  });
  t.truthy(await login());
  const ways: Readonly<Record<string, MasterApi>> = {
    'in the process': master,
    socket: connectMaster({ socketPath: directories(directory).socket }),
    http: connectMaster({ url: `http://127.0.0.1:${port}`, token }),
  };
  for (const [way, api] of Object.entries(ways)) {
    for await (const update of api.jobs.run({ tgt: 'web1', fun: 'test.twice', arg: integers })) {
      if (update.type !== 'return') continue;
      t.deepEqual(Object(update.return).args, [...integers, ...integers], way);
      t.is(Object(update.return).float, 1e20, way);
      t.true(formatJson(update.return).includes(digits.join(', ')), way);
    }
  }
});

test('on the wire of the local socket they are numbers', async (t) => {
  const { directory } = await start(t);
  const text = await new Promise<string>((resolve, reject) => {
    const socketPath = directories(directory).socket;
    const call = request({ socketPath, method: 'POST', path: '/rpc/jobs.run' }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => resolve(Buffer.concat(chunks).toString()));
    });
    call.on('error', reject);
    call.end(`{"tgt":"web1","fun":"test.twice","arg":[${digits.join(',')}]}`);
  });
  t.true(text.includes(`"args":[${[...digits, ...digits].join(',')}]`), text);
});

test('over the HTTP of a bridge, also where a schema bounds them', async (t) => {
  const { ask, login } = await start(t);
  const headers = json(await login());
  const call = async (text: bigint): Promise<string> => {
    const body = writeJson({ target: 'web1', params: { text } });
    const path = '/bridge/v1/commands/demo.count/run';
    return (await ask({ method: 'POST', path, headers, body })).text;
  };
  t.regex(await call(2n ** 63n - 1n), /"return":9223372036854775807[,}]/);
  t.regex(await call(-(2n ** 63n)), /ERR_COMMAND_PARAMETERS/);
  t.regex(await call(2n ** 64n), /ERR_ARGS/);
});
