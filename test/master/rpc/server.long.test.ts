/**
 * The local socket: which accounts may use it, which calls it rejects, and that errors reveal
 * nothing.
 */

import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  statSync,
  watch,
  writeFileSync,
} from 'node:fs';
import { request as httpRequest } from 'node:http';
import { createConnection, createServer } from 'node:net';
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import { connectMaster } from '#client';
import { type MasterOptions, resolveMasterConfig } from '#config';
import type { Master } from '#master';
import { fromJson, readMarkedJson, writeMarkedJson } from '#master';
import { markedJson } from '#master/arguments/arguments.ts';
import { WireDateTime, WireExtension, type WireValue } from '#minion-protocol';
import { readJsonInSteps, StepScheduler } from '#runtime';
import { createMaster } from '#server';
import { until, within } from '../../helpers/deadline.ts';
import { tries } from '../../helpers/effort.ts';
import { layMasterKey } from '../../helpers/rsa-keys.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { directories, startVectorMaster } from '../../helpers/vector-master.ts';
import { canonical } from '../../helpers/vectors.ts';

function socketOf(directory: string): string {
  return directories(directory).socket ?? '';
}

test('only the user of the master can use the socket', async (t) => {
  const { directory } = await startVectorMaster(t);
  const { mode } = statSync(socketOf(directory));
  t.is(mode & 0o777, 0o600);
  t.is(statSync(path.dirname(socketOf(directory))).mode & 0o777, 0o700);
});

test('no file is created beside the folder of the socket, which may be closed to this user', async (t) => {
  const directory = temporaryDirectory(t);
  const seen = new Set<string | null>();
  const watcher = watch(directory, (_kind, name) => seen.add(name));
  t.teardown(() => watcher.close());
  await startVectorMaster(t, { config: { socket: path.join(directory, 'run', 'socket') } });
  writeFileSync(path.join(directory, 'last'), '');
  await until('the last change to be seen', () => seen.has('last'));
  t.deepEqual([...seen], ['run', 'last']);
});

test('a stale socket is replaced', async (t) => {
  const first = await startVectorMaster(t);
  await first.master.close();
  const stale = socketOf(first.directory);
  await leaveStaleSocket(stale);
  t.true(existsSync(stale));
  const second = await startVectorMaster(t, first);
  t.is((await call(socketOf(second.directory), 'status', '{}')).status, 200);
});

test('closing removes the socket', async (t) => {
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

test('wrong parameters are named, with the expected type, and without a stack', async (t) => {
  const { directory } = await startVectorMaster(t);
  const many = JSON.stringify(Object.fromEntries(Array.from({ length: 101 }, (_, n) => [n, n])));
  const wrong: readonly (readonly [method: string, body: string, named: RegExp])[] = [
    ['jobs.run', '{"tgt":"*"}', /fun/],
    ['jobs.run', '{"tgt":7,"fun":"test.ping"}', /tgt/],
    ['jobs.run', '{"tgt":"*","fun":"test.ping","timeout":-1}', /timeout/],
    ['jobs.run', '{"tgt":"*","fun":"test.ping","hurry":true}', /hurry/],
    ['keys.accept', '{}', /match/],
    ['keys.accept', '{"match":"*","include":["all"]}', /include\.0/],
    ['keys.unpin', '[]', /parameters/],
    ['status', '{"verbose":true}', /verbose/],
    ['status', many, /too many parameters; the maximum is 100/],
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

test('oversized parameters are refused before they are parsed', async (t) => {
  const { directory } = await startVectorMaster(t);
  const length = 64 * 1024 * 1024 + 1;
  const { status, body } = await call(socketOf(directory), 'status', '{', {
    'content-length': String(length),
  });
  t.is(status, 400);
  t.regex(JSON.parse(body).error.message, /exceed/);
});

test('closing a stream ends the subscription behind it', async (t) => {
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
  // Closing waits for every call. It would take an hour if this call were still followed.
  await within('the end of the job', master.close());
  t.pass();
});

test('callers with unfinished requests do not delay closing', async (t) => {
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
  // Closing removes the bound name. Under another name, the file remains, as after a crash.
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

/** Returns the options of a master in a directory, which gets the master's key. */
function optionsIn(directory: string, run = directory): Partial<MasterOptions> {
  const pkiDir = path.join(directory, 'pki');
  layMasterKey(pkiDir);
  return {
    interface: '127.0.0.1',
    publishPort: 0,
    retPort: 0,
    id: 'socket-test',
    pkiDir,
    cachedir: path.join(directory, 'cache'),
    stateDir: path.join(directory, 'state'),
    socket: path.join(run, 'run', 'saltbridge.sock'),
  };
}

function masterIn(t: ExecutionContext, directory: string, run = directory): Master {
  const master = createMaster({ config: resolveMasterConfig(optionsIn(directory, run)) });
  t.teardown(() => master.close());
  return master;
}

test('a master in a worker thread has its local socket, for this user alone', async (t) => {
  const directory = temporaryDirectory(t);
  const program = new URL('master-in-thread.ts', import.meta.url);
  const worker = new Worker(program, { workerData: optionsIn(directory) });
  t.teardown(() => worker.terminate());
  await within('the master in the thread', once(worker, 'message'));
  const socketPath = path.join(directory, 'run', 'saltbridge.sock');
  t.is(statSync(socketPath).mode & 0o777, 0o600);
  t.deepEqual(readdirSync(path.dirname(socketPath)), ['saltbridge.sock']);
  t.is((await connectMaster({ socketPath }).status()).id, 'socket-test');
  worker.postMessage('close');
  await within('the end of the thread', once(worker, 'exit'));
});

test('a closed master leaves no socket behind', async (t) => {
  const directory = temporaryDirectory(t);
  const master = masterIn(t, directory);
  await master.start();
  await master.close();
  t.deepEqual(readdirSync(path.join(directory, 'run')), []);
});

test('the socket of a running master is not replaced', async (t) => {
  const directory = temporaryDirectory(t);
  await masterIn(t, directory).start();
  const other = masterIn(t, temporaryDirectory(t), directory);
  await t.throwsAsync(other.start(), { code: 'ERR_SOCKET' });
  const socketPath = path.join(directory, 'run', 'saltbridge.sock');
  t.is((await connectMaster({ socketPath }).status()).id, 'socket-test');
});

// Values are not changed by the transfer over the local socket.

const names = fc.oneof(
  fc.string(),
  fc.constantFrom('$bytes', '$int', '$map', '$ext', '__proto__', 'constructor'),
);

const { value: anyValue } = fc.letrec<{ value: WireValue; leaf: WireValue }>((tie) => ({
  leaf: fc.oneof(
    fc.constant(null),
    fc.boolean(),
    fc.integer(),
    fc.double({ noNaN: false }),
    fc.bigInt({ min: 2n ** 53n, max: 2n ** 64n - 1n }),
    fc.string({ unit: 'grapheme' }),
    fc.uint8Array().map((bytes) => new Uint8Array([255, ...bytes])),
    fc.constant(new WireDateTime('2024-01-02T03:04:05.678901')),
    fc.uint8Array().map((bytes) => new WireExtension(5, bytes)),
  ),
  value: fc.oneof(
    { maxDepth: 4 },
    tie('leaf'),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(names, tie('value'), { maxKeys: 4 }),
    fc
      .array(fc.tuple(fc.integer(), tie('value')), { maxLength: 3, minLength: 1 })
      .map((pairs) => new Map<WireValue, WireValue>(pairs)),
  ),
}));

test('every wire value is unchanged after a round trip through JSON text', async (t) => {
  const scheduler = new StepScheduler();
  await fc.assert(
    fc.asyncProperty(anyValue, async (value) => {
      const text = writeMarkedJson(value);
      t.is(canonical(readMarkedJson(text)), canonical(value));
      const read = await scheduler.run(readJsonInSteps(text, markedJson));
      t.is(canonical(read), canonical(value));
    }),
    tries(125),
  );
});

test('a negative zero is preserved', (t) => {
  t.true(Object.is(readMarkedJson(writeMarkedJson(-0)), -0));
});

test('names of Object.prototype are ordinary names', (t) => {
  const value = fromJson(JSON.parse('{"__proto__":{"admin":true},"a":1}'));
  t.is(Object.getPrototypeOf(value), null);
  t.false('admin' in Object(value));
});

test('a mark with invalid content is refused', (t) => {
  for (const text of [
    '{"$bytes":7}',
    '{"$map":[1]}',
    '{"$int":"x"}',
    '{"$map":"a"}',
    '{"$ext":7}',
  ]) {
    t.throws(() => fromJson(JSON.parse(text)), undefined, text);
  }
});
