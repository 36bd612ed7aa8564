/**
 * Limits for the bodies of each sender, and for the part that is parsed in one step [THREATS A-17].
 */
import { connect, type Socket } from 'node:net';
import test, { type ExecutionContext } from 'ava';
import { parse } from 'yaml';
import { type ReadingStep, readingSteps } from '#runtime';
import { maxReadingStep } from '#runtime/step-scheduler.ts';
import { within } from '../helpers/deadline.ts';
import { type ApiAnswer, json, password, type RunningApi, startApi } from '../helpers/salt-api.ts';

const mebibyte = 1_048_576;
const credentials = { username: 'admin', password, eauth: 'sharedsecret' };
const ping = { client: 'local', tgt: 'web1', fun: 'test.ping' };

/** Returns all steps of parsing on the main thread while `work` runs. */
async function stepsDuring(work: () => Promise<unknown>): Promise<readonly ReadingStep[]> {
  const steps: ReadingStep[] = [];
  const note = (step: unknown): unknown => steps.push(step as ReadingStep); // as it is published
  readingSteps.subscribe(note);
  await work();
  readingSteps.unsubscribe(note);
  return steps;
}

/** Fails if a step processes more than its limit. */
function areBounded(t: ExecutionContext, steps: readonly ReadingStep[], note: string): void {
  for (const { characters, values } of steps) {
    t.true(characters <= maxReadingStep.characters, note);
    t.true(values <= maxReadingStep.values, note);
  }
}

const manyKeys = Array.from({ length: 5000 }, (_, index) => `k${index}: 1\n`).join('');
const manyErrors = 'a: b: c\n'.repeat(4000);
const manyItems = `[${'1,'.repeat(20_000)}1]`;

test.serial('no parsing step before authentication is long, for any body', async (t) => {
  const { ask } = await startApi(t, { minions: [], options: { webhookDisableAuth: true } });
  const bodies: [type: string, body: string][] = [
    ['application/x-yaml', manyKeys],
    ['application/x-yaml', manyErrors],
    ['application/x-yaml', manyItems],
    ['application/x-www-form-urlencoded', `client=local&arg=${manyItems}`],
    ['application/x-www-form-urlencoded', 'a=1&'.repeat(90_000)],
    ['application/x-www-form-urlencoded', `a=${'%41'.repeat(300_000)}`],
    ['application/json', manyItems],
    ['application/json', `["${'\\"'.repeat(400_000)}"]`],
    [
      'application/json',
      JSON.stringify({ ...ping, arg: [`a={${manyKeys.replaceAll('\n', ',')}}`] }),
    ],
  ];
  for (const path of ['/run', '/hook/x', '/keys']) {
    for (const [type, body] of path === '/run' ? bodies : bodies.slice(-4)) {
      const headers = { 'content-type': type };
      const note = `${path} ${type} ${body.slice(0, 20)}`;
      const steps = await stepsDuring(async () => {
        const { status } = await ask({ method: 'POST', path, headers, body });
        t.true(status < 500, `${note}: ${status}`);
      });
      areBounded(t, steps, note);
    }
  }
});

test.serial('long typed arguments of a command are parsed in a thread', async (t) => {
  const { run, login } = await startApi(t, { minions: ['web1'] });
  const token = await login();
  const text = `a={${manyKeys.replaceAll('\n', ', ')}}`;
  const steps = await stepsDuring(async () => {
    const answer = await run(token, { ...ping, fun: 'test.arg', arg: [text] });
    const { kwargs } = Object(answer.json).return[0].web1;
    t.is(Object.keys(kwargs.a).length, 5000);
  });
  t.true(steps.length > 4);
  areBounded(t, steps, 'a command');
  // A short YAML text is parsed in a single step, which counts its characters.
  t.false(steps.some(({ characters, values }) => values === 0 && characters >= text.length));
});

test.serial('no step after a large command or in its response is long', async (t) => {
  const { ask, login } = await startApi(t, { minions: [] });
  const token = await login();
  const list = Array.from({ length: 90_000 }, () => 1);
  const text = 'ä"'.repeat(3 * mebibyte);
  for (const [argument, type, least] of [
    [list, 'application/json', { values: 3 * 90_000 }],
    [text, 'application/json', { characters: 4 * text.length }],
    [Array(9000).fill('1'), 'application/x-yaml', { values: 27_000 }],
  ] as const) {
    const steps = await stepsDuring(async () => {
      const answer = await ask({
        method: 'POST',
        path: '/',
        headers: { ...json(token), accept: type },
        body: { client: 'runner', fun: 'test.arg', arg: [argument] },
      });
      t.is(answer.status, 200);
      t.is(Number(answer.headers['content-length']), Buffer.byteLength(answer.text));
      const { return: returned } =
        type === 'application/x-yaml' ? parse(answer.text) : Object(answer.json);
      t.deepEqual(returned[0].args, [argument]);
    });
    areBounded(t, steps, type);
    const sum = (unit: keyof ReadingStep): number =>
      steps.reduce((all, step) => all + step[unit], 0);
    // The body is parsed, and then written to the audit log and to the response.
    for (const [unit, count] of Object.entries(least)) {
      t.true(sum(unit as keyof ReadingStep) >= count, `${unit}: ${sum(unit as keyof ReadingStep)}`);
    }
  }
});

test('a log-in body is limited to 8 KiB', async (t) => {
  const { ask } = await startApi(t, { minions: [] });
  for (const path of ['/login', '/token', '/rpc/logins.login']) {
    const post = (size: number): Promise<ApiAnswer> => {
      const body = JSON.stringify({ ...credentials, padding: 'x'.repeat(size) });
      return ask({ method: 'POST', path, headers: json(), body });
    };
    t.not((await post(7000)).status, 413, path);
    t.is((await post(8192)).status, 413, path);
  }
});

test('a request without a token is limited to 1 MiB, or to the value of the option', async (t) => {
  const { ask } = await startApi(t, { minions: ['web1'] });
  const small = await startApi(t, {
    minions: [],
    options: { maxUnauthenticatedBodySize: 2048, webhookDisableAuth: true },
  });
  const low = { ...ping, fun: 'test.arg', ...credentials };
  const post = (arg: string, headers = json()): Promise<ApiAnswer> =>
    ask({ method: 'POST', path: '/run', headers, body: { ...low, arg: [arg] } });
  t.is((await post('x'.repeat(mebibyte - 1000))).status, 200);
  const refused = await post('x'.repeat(mebibyte));
  t.is(refused.status, 413);
  t.like(refused.json, { message: `the body is too large; the maximum is ${mebibyte} bytes` });
  t.is((await post('x'.repeat(mebibyte), json('0'.repeat(40)))).status, 413);
  const hook = { method: 'POST', path: '/hook/a', headers: json(), body: 'x'.repeat(3000) };
  t.is((await small.ask(hook)).status, 413);
  t.is((await small.ask({ ...hook, headers: json(await small.login()) })).status, 400);
});

test('a request with a token is limited to 16 MiB, or to the value of the option', async (t) => {
  const { run, login, ask } = await startApi(t, { minions: ['web1'] });
  const token = await login();
  const arg = 'ä'.repeat(2 * mebibyte);
  const answer = await run(token, { ...ping, fun: 'test.arg', arg: [arg] });
  t.true(Object(answer.json).return[0].web1.args[0] === arg);
  t.is((await run(token, { ...ping, arg: ['x'.repeat(16 * mebibyte)] })).status, 413);
  const salt = await ask({ method: 'POST', path: '/token', headers: json(), body: credentials });
  const [{ token: bearer }] = salt.json as [{ token: string }];
  const headers = { ...json(), authorization: `Bearer ${bearer}` };
  const body = JSON.stringify({ tgt: 'web1', fun: 'test.ping', arg: [arg] });
  const called = await ask({ method: 'POST', path: '/rpc/jobs.plan', headers, body });
  t.not(called.status, 413);
});

test('a body has at most 100,000 values, or the number of the option, in any format', async (t) => {
  const { run, login, ask } = await startApi(t, {
    minions: ['web1'],
    options: { maxRequestBodyValues: 100 },
  });
  const token = await login();
  const list = (count: number): number[] => Array.from({ length: count }, () => 1);
  t.is((await run(token, { ...ping, fun: 'test.arg', arg: list(90) })).status, 200);
  t.is((await run(token, { ...ping, fun: 'test.arg', arg: list(101) })).status, 400);
  for (const [type, body] of [
    ['application/x-yaml', `{client: local, tgt: web1, fun: test.arg, arg: [${list(101)}]}`],
    [
      'application/x-www-form-urlencoded',
      `client=local&tgt=web1&fun=test.arg&${'a=1&'.repeat(100)}`,
    ],
  ] as const) {
    const headers = { 'content-type': type, 'x-auth-token': token };
    t.is((await ask({ method: 'POST', path: '/', headers, body })).status, 400, type);
  }
});

test('a token that is not text is refused on every route', async (t) => {
  const { ask } = await startApi(t, { minions: [] });
  const calls = ['logins.follow', 'logins.identify', 'logins.logout', 'events.subscribe'];
  for (const name of calls) {
    for (const token of [{ toString: 1 }, [], 5, null]) {
      const call = { method: 'POST', path: `/rpc/${name}`, headers: json(), body: { token } };
      const { status } = await ask(call);
      t.true(status === 400 || status === 401, `${name}: ${status}`);
    }
  }
});

/** Sends bodies of 1 MiB without the last byte. */
async function unfinished(t: ExecutionContext, port: number, count: number): Promise<Socket[]> {
  const head = `POST /run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${mebibyte}\r\n\r\n`;
  const sockets: Socket[] = [];
  for (let index = 0; index < count; index += 1) {
    const socket = connect(port, '127.0.0.1');
    t.teardown(() => socket.destroy());
    socket.on('error', () => {});
    await new Promise<void>((resolve) => {
      socket.write(Buffer.concat([Buffer.from(head), Buffer.alloc(mebibyte - 1, 0x20)]), () =>
        resolve(),
      );
    });
    sockets.push(socket);
  }
  return sockets;
}

async function answerOf(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket) {
    chunks.push(chunk);
    if (Buffer.concat(chunks).includes('\r\n\r\n')) break;
  }
  return Buffer.concat(chunks).toString('latin1');
}

test('bodies of an address without an authenticated user share a budget', async (t) => {
  const { port, ask, login }: RunningApi = await startApi(t, { minions: [] });
  const token = await login();
  const sockets = await unfinished(t, port, 12);
  const refusals = sockets.map(async (socket) => ({ socket, text: await answerOf(socket) }));
  const { text } = await within('a refusal', Promise.race(refusals));
  t.regex(text, /^HTTP\/1\.1 503 /);
  t.regex(text, /^retry-after: 1\r$/im);
  t.regex(text, /ERR_HTTP_BUSY/);
  // Requests with a session do not count.
  const body = { client: 'runner', fun: 'test.arg', arg: ['x'.repeat(mebibyte)] };
  t.is((await ask({ method: 'POST', path: '/', headers: json(token), body })).status, 200);
  for (const socket of sockets) socket.destroy();
  const again = async (): Promise<number> => {
    const { status } = await ask({ method: 'POST', path: '/run', headers: json(), body });
    return status;
  };
  let status = await again();
  for (let tries = 0; status === 503 && tries < 1000; tries += 1) status = await again();
  t.not(status, 503);
});
