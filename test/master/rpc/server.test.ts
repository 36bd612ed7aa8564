/** The local socket: who may reach it, what it refuses, and that it says nothing it should not. */
import { existsSync, mkdirSync, renameSync, statSync, watch, writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { createConnection, createServer } from 'node:net';
import path from 'node:path';
import test from 'ava';
import { until, within } from '../../helpers/deadline.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { directories, startVectorMaster } from '../../helpers/vector-master.ts';

function socketOf(directory: string): string {
  return directories(directory).socket ?? '';
}

test('the socket is for the user of the master alone', async (t) => {
  const { directory } = await startVectorMaster(t);
  const { mode } = statSync(socketOf(directory));
  t.is(mode & 0o777, 0o600);
  t.is(statSync(path.dirname(socketOf(directory))).mode & 0o777, 0o700);
});

test('nothing is made beside the folder of the socket, which may be closed to this user', async (t) => {
  const directory = temporaryDirectory(t);
  const seen = new Set<string | null>();
  const watcher = watch(directory, (_kind, name) => seen.add(name));
  t.teardown(() => watcher.close());
  await startVectorMaster(t, { config: { socket: path.join(directory, 'run', 'socket') } });
  writeFileSync(path.join(directory, 'last'), '');
  await until('the last change to be seen', () => seen.has('last'));
  t.deepEqual([...seen], ['run', 'last']);
});

test('a socket that nobody listens on any more is replaced', async (t) => {
  const first = await startVectorMaster(t);
  await first.master.close();
  const stale = socketOf(first.directory);
  await leaveStaleSocket(stale);
  t.true(existsSync(stale));
  const second = await startVectorMaster(t, first);
  t.is((await call(socketOf(second.directory), 'status', '{}')).status, 200);
});

test('closing takes the socket away', async (t) => {
  const { directory, master } = await startVectorMaster(t);
  await master.close();
  t.false(existsSync(socketOf(directory)));
});

for (const method of ['nothing', '__proto__', 'constructor', 'toString', 'keys.__proto__', '']) {
  test(`the method ${JSON.stringify(method)} is unknown`, async (t) => {
    const { directory } = await startVectorMaster(t);
    const { status, body } = await call(socketOf(directory), method, '{}');
    t.is(status, 404);
    t.is(JSON.parse(body).error.code, 'ERR_RPC_UNKNOWN_METHOD');
  });
}

test('wrong parameters are named, with what was expected, and without a stack', async (t) => {
  const { directory } = await startVectorMaster(t);
  const wrong: readonly (readonly [method: string, body: string, named: RegExp])[] = [
    ['jobs.run', '{"tgt":"*"}', /fun/],
    ['jobs.run', '{"tgt":7,"fun":"test.ping"}', /tgt/],
    ['jobs.run', '{"tgt":"*","fun":"test.ping","timeout":-1}', /timeout/],
    ['jobs.run', '{"tgt":"*","fun":"test.ping","hurry":true}', /hurry/],
    ['keys.accept', '{}', /match/],
    ['keys.accept', '{"match":"*","include":["all"]}', /include\.0/],
    ['keys.unpin', '[]', /parameters/],
    ['status', '{"verbose":true}', /verbose/],
    ['status', 'no json', /JSON/],
    ['status', '{"$int":"x"}', /JSON/],
  ];
  for (const [method, body, named] of wrong) {
    const answer = await call(socketOf(directory), method, body);
    t.is(answer.status, 400, body);
    const { error } = JSON.parse(answer.body);
    t.is(error.code, 'ERR_ARGS', body);
    t.regex(error.message, named, body);
    t.false(/ at |node:|\.js|\.ts/.test(answer.body), answer.body);
  }
});

test('an error of a stream comes as its last line', async (t) => {
  const { directory } = await startVectorMaster(t);
  const parameters = '{"tgt":"*","tgtType":"telepathy","fun":"test.ping"}';
  const { body } = await call(socketOf(directory), 'jobs.run', parameters);
  const [line] = body.trim().split('\n').slice(-1);
  t.is(JSON.parse(line ?? '').error.code, 'ERR_BAD_TGT');
});

test('parameters that are too large are refused before they are read', async (t) => {
  const { directory } = await startVectorMaster(t);
  const length = 64 * 1024 * 1024 + 1;
  const { status, body } = await call(socketOf(directory), 'status', '{', {
    'content-length': String(length),
  });
  t.is(status, 400);
  t.regex(JSON.parse(body).error.message, /larger than/);
});

test('a caller that ends its stream ends what was followed for it', async (t) => {
  const { directory, master } = await startVectorMaster(t);
  const parameters = '{"tgt":"*","fun":"test.ping","timeout":3600}';
  const stream = httpRequest(options(socketOf(directory), 'jobs.run'));
  stream.on('error', () => {});
  const opened = new Promise<void>((resolve) => {
    stream.once('response', (response) => response.once('data', () => resolve()));
  });
  stream.end(parameters);
  await within('the job', opened);
  stream.destroy();
  // Closing waits for every call: it would take an hour if this one were still followed.
  await within('the end of the job', master.close());
  t.pass();
});

test('callers that never finish their request do not hold a master that closes', async (t) => {
  const { directory, master } = await startVectorMaster(t);
  const silent = createConnection(socketOf(directory));
  const half = createConnection(socketOf(directory));
  t.teardown(() => {
    silent.destroy();
    half.destroy();
  });
  await within('a connection', new Promise((resolve) => silent.once('connect', resolve)));
  half.write('POST /rpc/status HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{');
  await call(socketOf(directory), 'status', '{}');
  await t.notThrowsAsync(within('closing', master.close()));
});

async function leaveStaleSocket(socketPath: string): Promise<void> {
  mkdirSync(path.dirname(socketPath), { recursive: true });
  const server = createServer();
  // Closing removes the name that was bound; under another one the file stays, as after a crash.
  const moved = `${socketPath}.old`;
  await new Promise<void>((resolve) => server.listen(moved, resolve));
  renameSync(moved, socketPath);
  await new Promise((resolve) => server.close(resolve));
}

interface CallAnswer {
  readonly status: number;
  readonly body: string;
}

function options(socketPath: string, method: string, headers = {}): object {
  return { socketPath, path: `/rpc/${method}`, method: 'POST', headers };
}

async function call(
  socketPath: string,
  method: string,
  body: string,
  headers: Record<string, string> = {},
): Promise<CallAnswer> {
  const answer = new Promise<CallAnswer>((resolve, reject) => {
    const request = httpRequest(options(socketPath, method, headers), (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => {
        request.destroy();
        resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString() });
      });
    });
    request.on('error', reject);
    if (headers['content-length'] === undefined) request.end(body);
    else request.write(body);
  });
  return within('an answer of the local socket', answer);
}
