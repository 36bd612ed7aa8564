/** Salt's own Python clients: their recorded requests and frames, and rejected callers. */

import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { Writable } from 'node:stream';
import test from 'ava';
import { createLogger, createSilentLogger } from '#master';
import {
  isWireMap,
  packWire,
  TcpFrameDecoder,
  unpackEvent,
  unpackLocal,
  unpackWire,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { encodeEvent } from '#salt-api/localclient/event-sockets.ts';
import { createLocalClient, type LocalClientStatus } from '#salt-api/localclient/index.ts';
import { LocalRequests } from '#salt-api/localclient/requests.ts';
import { runCli } from '../cli/run-cli.ts';
import { until } from '../helpers/deadline.ts';
import { testWhere } from '../helpers/needs.ts';
import { startVectorMaster } from '../helpers/vector-master.ts';
import { connectTo, latest, recorded, recordings, startSite, subscribe } from './site.ts';

/** Returns a reply without the values that differ for each job. */
function withoutJid(reply: WireValue | undefined): unknown {
  return JSON.parse(JSON.stringify(reply).replaceAll(/20\d{18}/g, 'JID'));
}

/** Returns the recorded request with the key of this master. */
function withKey(request: Uint8Array, key: string): Buffer {
  const bytes = Buffer.from(request);
  const at = bytes.indexOf(Buffer.from(key));
  if (at >= 0) bytes.write(latest.key, at);
  return bytes;
}

const jidOf = (reply: WireValue): string =>
  isWireMap(reply) && isWireMap(reply.load) ? String(reply.load.jid) : '';

test('recorded requests of each release get replies in the recorded form', async (t) => {
  const site = await startSite(t);
  for (const recording of recordings) {
    for (const step of ['cmd', 'cmd_args', 'cmd_multi', 'cmd_nomatch', 'badkey', 'ping']) {
      const [request] = recorded(recording, step, 'requests', 'client');
      const [reply] = recorded(recording, step, 'requests', 'master');
      if (request === undefined || reply === undefined) continue;
      const answer = await site.request(withKey(request, recording.key));
      const expected = withoutJid(unpackWire(reply));
      t.deepEqual(withoutJid(answer), expected, `${recording.release} ${step}`);
    }
  }
});

test('a job has the arguments of its request, its jid and the account of the key as its user', async (t) => {
  const site = await startSite(t);
  const [withArguments = Buffer.alloc(0)] = recorded(latest, 'cmd_args', 'requests', 'client');
  const job = await site.master.jobs.show(jidOf(await site.request(withArguments)));
  t.like(job, { fun: 'test.arg', tgt: 'm1', tgtType: 'glob', user: process.env.USER ?? job.user });
  t.deepEqual(job.arg, ['a', 1, { k: [1, 2] }, { foo: 'bar', __kwarg__: true }]);
  const [withJid = Buffer.alloc(0)] = recorded(latest, 'run_job', 'requests', 'client');
  const given = jidOf(await site.request(withJid));
  t.is(given, '20261122000000000001');
  t.is((await site.master.jobs.show(given)).fun, 'test.sleep');
  const bySudo = { cmd: 'publish', tgt: '*', fun: 'test.ping', key: latest.key, user: 'sudo_ann' };
  t.is((await site.master.jobs.show(jidOf(await site.send(bySudo)))).user, 'sudo_ann');
});

test('a request with a wrong or missing key is refused, and publishes and emits nothing', async (t) => {
  const lines: string[] = [];
  const write = (line: Buffer, _: string, done: () => void): void => {
    lines.push(String(line));
    done();
  };
  const logger = createLogger('trace', new Writable({ write }));
  const site = await startSite(t, { logger });
  const { key } = latest;
  const wrong = [undefined, '', 'wrong', key.slice(1), `${key}=`, key.toLowerCase(), 7, null];
  const refused = {
    error: { name: 'AuthenticationError', message: 'Authentication error occurred.' },
  };
  const events = await site.eventsDuring(async () => {
    for (const given of wrong) {
      const credentials: WireMap = given === undefined ? {} : { key: given };
      for (const load of [
        { cmd: 'publish', tgt: '*', fun: 'test.ping' },
        { cmd: 'runner', fun: 'jobs.active', kwarg: {} },
        { cmd: 'wheel', fun: 'key.list_all' },
      ]) {
        t.deepEqual(await site.send({ ...load, ...credentials, user: 'root' }), refused);
      }
    }
  });
  t.deepEqual(events, []);
  t.deepEqual(await site.master.jobs.list(), []);
  t.is((await site.extension.call<LocalClientStatus>('status')).refused, 3 * wrong.length);
  t.false(lines.some((line) => line.includes('wrong') || line.includes(key)));
});

test('the key is valid only for its own account', async (t) => {
  const site = await startSite(t);
  const load = { cmd: 'publish', tgt: '*', fun: 'test.ping', key: latest.key, user: 'somebody' };
  t.deepEqual(await site.send(load), {
    error: { name: 'AuthorizationError', message: 'Authorization error occurred.' },
  });
});

test('a log-in takes precedence over a key in the same request', async (t) => {
  const site = await startSite(t, {
    config: {
      externalAuth: { sharedsecret: { bob: ['.*', '@wheel', '@runner'], carl: ['test.*'] } },
      eauth: { sharedsecret: 's3cret' },
    },
  });
  const publish = (fun: string, login: WireMap): Promise<WireValue> =>
    site.send({ cmd: 'publish', tgt: '*', fun, arg: [], key: latest.key, kwargs: login });
  const carl = { username: 'carl', password: 's3cret', eauth: 'sharedsecret' };
  t.like(await publish('cmd.run', carl), { error: { name: 'AuthorizationError' } });
  t.like(await publish('test.ping', { ...carl, password: 'no' }), {
    error: { name: 'AuthenticationError' },
  });
  t.like(await publish('test.ping', { token: 'none' }), { error: { name: 'AuthenticationError' } });
  const { user } = await site.master.jobs.show(jidOf(await publish('test.ping', carl)));
  t.is(user, 'carl');
  const [makeToken = Buffer.alloc(0)] = recorded(latest, 'mk_token', 'requests', 'client');
  const [recordedToken = Buffer.alloc(0)] = recorded(latest, 'mk_token', 'requests', 'master');
  const made = await site.request(makeToken);
  t.deepEqual(Object.keys(Object(made)), Object.keys(Object(unpackWire(recordedToken))));
  const { token = '' } = isWireMap(made) ? made : {};
  t.deepEqual(await site.send({ cmd: 'get_token', token }), made);
  t.like(await site.send({ cmd: 'wheel', fun: 'key.list', match: 'acc', token }), {
    data: { fun: 'wheel.key.list', user: 'bob', return: { minions: ['m1', 'm2'] }, success: true },
  });
  for (const step of ['mk_token_bad', 'get_token_bad']) {
    const [request = Buffer.alloc(0)] = recorded(latest, step, 'requests', 'client');
    const [reply = Buffer.alloc(0)] = recorded(latest, step, 'requests', 'master');
    t.deepEqual(await site.request(request), unpackWire(reply), step);
  }
});

test('a runner is started with the key, and readers of events receive its result', async (t) => {
  const site = await startSite(t);
  const reader = await subscribe(t, site);
  for (const recording of recordings) {
    const [request] = recorded(recording, 'runner_cmd_key', 'requests', 'client');
    const [reply] = recorded(recording, 'runner_cmd_key', 'requests', 'master');
    if (request === undefined || reply === undefined) continue;
    const answer = await site.request(withKey(request, recording.key));
    t.deepEqual(withoutJid(answer), withoutJid(unpackWire(reply)));
    const { tag = '' } = isWireMap(answer) ? answer : {};
    t.like(await reader.event(new RegExp(`^${tag}/new$`)), { fun: 'runner.jobs.active' });
  }
  const kwarg = { arg: ['a'], kwarg: { b: 1 } };
  const started = await site.send({ cmd: 'runner', fun: 'test.arg', kwarg, key: latest.key });
  const { tag = '' } = isWireMap(started) ? started : {};
  const result = {
    fun: 'runner.test.arg',
    return: { args: ['a'], kwargs: { b: 1 } },
    success: true,
  };
  t.like(await reader.event(new RegExp(`^${tag}/ret$`)), result);
});

test('a malformed request of a client gets an error and has no other effect', async (t) => {
  const site = await startSite(t);
  const { key } = latest;
  for (const request of [Buffer.alloc(0), Buffer.of(0xc1), Buffer.of(0x80), Buffer.of(0x93)]) {
    t.like(await site.request(request), { error: 'not an unencrypted request' });
  }
  const loads = [{}, { tgt: 7, fun: 'test.ping' }, { tgt: '*', fun: 'x' }, { tgt: '*', fun: {} }];
  for (const load of loads) {
    const { error } = Object(await site.send({ cmd: 'publish', key, ...load }));
    t.is(typeof error, 'string');
  }
  const kwargs = { ret_config: 'other' };
  const unserved = { cmd: 'publish', tgt: '*', fun: 'test.ping', key, kwargs };
  t.regex(String(Object(await site.send(unserved)).error), /ret_config/);
  t.like(await site.send({ cmd: 'runner', fun: 'no.such', kwarg: {}, key }), {
    error: { name: 'SaltClientError', message: "'no.such' is not available." },
  });
  t.deepEqual(await site.send({ cmd: 'nonsense' }), {});
  t.deepEqual(await site.master.jobs.list(), []);
});

const many: readonly number[] = Array.from({ length: 5_000 }, (_, index) => index);
const manyFields: WireMap = Object.fromEntries(many.map((index) => [`f${index}`, 1]));
const notRequest = { error: 'not an unencrypted request' };
const bob = { username: 'bob', password: 's3cret', eauth: 'sharedsecret' };

test('a large request is unpacked only if its key or log-in is valid', async (t) => {
  const site = await startSite(t, {
    config: {
      externalAuth: { sharedsecret: { bob: ['.*'] } },
      eauth: { sharedsecret: 's3cret' },
    },
  });
  const { key } = latest;
  const large: WireMap = { cmd: 'publish', tgt: '*', fun: 'test.arg', arg: [[...many]] };
  const refused = { error: { name: 'AuthenticationError' } };
  const broken = { ...large, tgt: 7 };
  for (const load of [large, broken]) t.like(await site.send({ ...load, key: 'no' }), refused);
  t.like(await site.send({ ...large, kwargs: { token: 'none' }, key }), refused);
  t.like(await site.send({ cmd: 'wheel', fun: 'key.list', key: 'no', arg: [...many] }), refused);
  t.deepEqual(await site.send({ cmd: 'wheel', fun: 'key.list', key, ...manyFields }), notRequest);
  t.deepEqual(await site.send({ cmd: 'ping', many: [...many] }), notRequest);
  t.deepEqual(await site.master.jobs.list(), []);
  for (const kwargs of [{}, bob]) {
    const jid = jidOf(await site.send({ ...large, key, kwargs }));
    const { arg, user } = await site.master.jobs.show(jid);
    t.deepEqual(arg, [many]);
    t.is(user === 'bob', kwargs === bob);
  }
});

test('in each turn of the event loop, one large request is read', async (t) => {
  const { master } = await startVectorMaster(t);
  const own = { account: 'root', key: latest.key };
  const requests = new LocalRequests({ master, own, now: Date.now, log: createSilentLogger() });
  const arg = [Array.from({ length: 3_000 }, () => 1)];
  const load = { cmd: 'publish', tgt: '*', fun: 'test.arg', arg, key: 'no' };
  const request = packWire({ enc: 'clear', load, version: 3 });
  let turn = 0;
  let timer = setImmediate(function count() {
    turn += 1;
    timer = setImmediate(count);
  });
  t.teardown(() => clearImmediate(timer));
  const turns = Array.from({ length: 5 }, async () => {
    const reply = unpackLocal(await requests.handle(request));
    t.like(reply, { error: { name: 'AuthenticationError' } });
    return turn;
  });
  t.is(new Set(await Promise.all(turns)).size, 5);
});

test('a large request whose log-in cannot be read exactly does not get the rights of its key', async (t) => {
  const site = await startSite(t, {
    config: {
      externalAuth: { sharedsecret: { bob: ['test.ping'] } },
      eauth: { sharedsecret: 's3cret' },
    },
  });
  const { key } = latest;
  const large: WireMap = { cmd: 'publish', tgt: '*', fun: 'test.arg', arg: [[...many]], key };
  t.like(await site.send({ ...large, kwargs: bob }), { error: { name: 'AuthorizationError' } });
  t.deepEqual(await site.send({ ...large, kwargs: { ...manyFields, ...bob } }), notRequest);
  const envelope = (load: Map<WireValue, WireValue>): Buffer =>
    packWire({ enc: 'clear', load, version: 3 });
  const withoutLogin = new Map<WireValue, WireValue>([...Object.entries(large), ['kwargs', {}]]);
  t.not(jidOf(await site.request(envelope(withoutLogin))), '');
  // Renames a field, so that the packed map contains `kwargs` twice.
  const twice = envelope(new Map([...withoutLogin, ['kwargx', bob]]));
  twice.write('kwargs', twice.indexOf('kwargx'));
  t.deepEqual(await site.request(twice), notRequest);
  // Replaces a name with a named constant, which is read as its value: `eauth`.
  const constant = Buffer.concat([Buffer.of(0xc7, 8, 79, 0x92, 0xc0), packWire('eauth')]);
  const name = 'x'.repeat(constant.length - 1);
  const { eauth, ...rest } = bob;
  const hidden = envelope(new Map([...withoutLogin, ['kwargs', { ...rest, [name]: eauth }]]));
  constant.copy(hidden, hidden.indexOf(packWire(name)));
  t.deepEqual(await site.request(hidden), notRequest);
  t.is((await site.master.jobs.list()).length, 1);
});

test('a request repeated before its answer is one job, and requests of two callers are two', async (t) => {
  const { master } = await startSite(t);
  const clock = { now: 0 };
  const published: (() => void)[] = [];
  const publish: typeof master.jobs.publish = async () => {
    await new Promise<void>((resolve) => published.push(resolve));
    return { jid: String(published.length), minions: ['m1'], missing: [], skipped: 0 };
  };
  const slow = { ...master, jobs: { ...master.jobs, publish } };
  const own = { account: 'root', key: latest.key };
  const log = createSilentLogger();
  const requests = new LocalRequests({ master: slow, own, now: () => clock.now, log });
  const [cmd = Buffer.alloc(0)] = recorded(latest, 'cmd', 'requests', 'client');
  const replies = [requests.handle(cmd)];
  await until('the first to be published', () => published.length === 1);
  replies.push(requests.handle(cmd));
  await until('another caller to publish', () => published.length === 2);
  clock.now = 1000;
  replies.push(requests.handle(cmd));
  for (const release of published) release();
  const [first, , repetition] = await Promise.all(replies);
  t.deepEqual(repetition, first);
  t.is(published.length, 2);
  const next = requests.handle(cmd);
  await until('one after the answer to be published', () => published.length === 3);
  published[2]?.();
  t.notDeepEqual(await next, first);
});

test('an occupied port does not prevent the start of a master, and clients find none', async (t) => {
  const first = await startSite(t);
  const { directory, store } = first;
  await first.master.close();
  const mark = path.join(first.files, 'run', 'publish_pull.ipc');
  writeFileSync(mark, '');
  const taken = createServer().listen(first.status.port, '127.0.0.1');
  t.teardown(() => taken.close());
  await once(taken, 'listening');
  const extensions = [createLocalClient()];
  await startVectorMaster(t, { directory, store, extensions, startAt: Date.now() });
  const status = await first.extension.call<LocalClientStatus>('status');
  t.true(status.isEnabled);
  t.is(status.port, undefined);
  t.regex(status.problem ?? '', /in use/);
  t.false(existsSync(mark));
});

test('a recorded event is written as the recorded bytes', (t) => {
  for (const recording of recordings) {
    const frames = recorded(recording, 'cmd', 'events', 'master');
    t.true(frames.length > 0);
    for (const frame of frames) {
      const [decoded] = new TcpFrameDecoder(1 << 20).push(frame);
      const packed = decoded?.type === 'frame' ? unpackLocal(decoded.body) : undefined;
      const { tag, data } = unpackEvent(packed instanceof Uint8Array ? packed : Buffer.alloc(0));
      t.deepEqual(encodeEvent({ tag, data: isWireMap(data) ? data : {} }), frame);
    }
  }
});

test('an event of a client reaches every reader, also in pieces and concurrently with others', async (t) => {
  const site = await startSite(t);
  const readers = [await subscribe(t, site), await subscribe(t, site)];
  const writer = await connectTo(t, path.join(site.files, 'run', 'master_event_pull.ipc'));
  const frames = Buffer.concat(recorded(latest, 'fire', 'firing', 'client'));
  writer.write(frames.subarray(0, 9));
  await new Promise(setImmediate);
  writer.write(frames.subarray(9));
  for (const reader of readers) {
    const { _stamp, ...data } = await reader.event(/^my\/tag$/);
    t.deepEqual(data, { a: 1, b: new Uint8Array(Buffer.from('ff00', 'hex')), c: 'ü' });
    t.like(await reader.event(/^fire_master$/), { tag: 'my/other', data: { d: 1 } });
  }
});

test('a client that fires an invalid event is disconnected, and others are served', async (t) => {
  const site = await startSite(t);
  const reader = await subscribe(t, site);
  const file = path.join(site.files, 'run', 'master_event_pull.ipc');
  // These frames declare sixteen entries that never arrive, a byte that MessagePack does not
  // define, and text of 2 GiB.
  for (const bytes of ['c1', '82a46865616480a4626f6479c67fffffff', '93010203']) {
    const writer = await connectTo(t, file);
    writer.write(Buffer.from(bytes, 'hex'));
    await until('the end of the connection', () => writer.resume().destroyed);
  }
  const writer = await connectTo(t, file);
  for (const frame of recorded(latest, 'fire', 'firing', 'client')) writer.write(frame);
  t.like(await reader.event(/^my\/tag$/), { a: 1 });
});

test('a reader that does not read events is disconnected, with a line in the log', async (t) => {
  const lines: string[] = [];
  const write = (line: Buffer, _: string, done: () => void): void => {
    lines.push(String(line));
    done();
  };
  const logger = createLogger('warning', new Writable({ write }));
  const site = await startSite(t, { logger });
  const idle = await connectTo(t, path.join(site.files, 'run', 'master_event_pub.ipc'));
  idle.pause();
  const reader = await subscribe(t, site);
  const data = { text: 'x'.repeat(1_000_000) };
  const isTold = (): boolean => lines.some((line) => line.includes('too slowly'));
  for (let event = 0; event < 40 && !isTold(); event += 1) {
    await site.master.events.fire(`big/${event}`, data);
    await reader.event(new RegExp(`^big/${event}$`));
  }
  t.true(isTold());
  await site.master.events.fire('after', {});
  t.truthy(await reader.event(/^after$/));
});

test('only the account of the master can use key, configuration and sockets', async (t) => {
  const site = await startSite(t);
  const modeOf = (file: string): number => statSync(path.join(site.files, file)).mode & 0o777;
  for (const directory of ['.', 'cache', 'run', 'returners', 'pki', 'salt-run']) {
    t.is(modeOf(directory), 0o700, directory);
  }
  for (const file of ['master', 'run/master_event_pub.ipc', 'run/master_event_pull.ipc']) {
    t.is(modeOf(file), 0o600, file);
  }
  t.is(statSync(site.keyFile).mode & 0o777, 0o600);
  await site.extension.call('disable');
  t.false(existsSync(site.files));
  await site.extension.call('enable', { port: 0 });
  const made = readFileSync(site.keyFile, 'utf8');
  t.regex(made, /^[A-Za-z0-9+/]{75}=$/);
  t.not(made, latest.key);
  t.is(statSync(site.keyFile).mode & 0o777, 0o600);
});

test('the key, the port and the sockets survive a restart, and disabling removes them', async (t) => {
  const first = await startSite(t);
  chmodSync(first.keyFile, 0o644);
  await first.master.close();
  t.false(existsSync(path.join(first.files, 'run', 'publish_pull.ipc')));
  const { directory, store } = first;
  const extensions = [createLocalClient()];
  await startVectorMaster(t, { directory, store, extensions, startAt: Date.now() });
  const status = await first.extension.call<LocalClientStatus>('status');
  t.like(status, { isEnabled: true, port: first.status.port });
  t.is(readFileSync(first.keyFile, 'utf8'), latest.key);
  t.is(statSync(first.keyFile).mode & 0o777, 0o600);
  t.truthy(
    jidOf(await first.send({ cmd: 'publish', tgt: '*', fun: 'test.ping', key: latest.key })),
  );
  await first.extension.call('disable');
  t.like(await first.extension.call<LocalClientStatus>('status'), { isEnabled: false });
});

test('saltbridge localclient shows the service and its paths', async (t) => {
  const site = await startSite(t);
  const options = { openExtension: async () => site.extension };
  const run = (...words: string[]): ReturnType<typeof runCli> =>
    runCli(['localclient', ...words], options);
  const enabled = `enabled    127.0.0.1:${site.status.port}\ndirectory  ${site.files}\n`;
  t.true((await run('enable')).stdout.startsWith(enabled));
  const { stdout } = await run('status', '--json');
  t.like(JSON.parse(stdout), { isEnabled: true, port: site.status.port, eventReaders: 0 });
  t.is((await run('enable', '--port', '70000')).code, 64);
  t.regex((await run('disable')).stdout, /^disabled/);
  t.regex((await run('status')).stdout, /^disabled/);
});

/** Script that acts like a client, as another account. */
const attempt = `
const { connect } = require('node:net');
const { readFileSync } = require('node:fs');
const [key, ...sockets] = process.argv.slice(1);
const codes = [];
try { readFileSync(key); codes.push('read'); } catch (error) { codes.push(error.code); }
const next = () => {
  const file = sockets.shift();
  if (file === undefined) { console.log(codes.join(' ')); return; }
  const socket = connect(file);
  socket.on('connect', () => { codes.push('connected'); socket.destroy(); next(); });
  socket.on('error', (error) => { codes.push(error.code); next(); });
};
next();
`;

testWhere(process.getuid?.() === 0, 'root')(
  'another account reads neither key nor events, and fires none, even inside the directory',
  async (t) => {
    const site = await startSite(t);
    const run = path.join(site.files, 'run');
    const sockets = ['pub', 'pull'].map((name) => path.join(run, `master_event_${name}.ipc`));
    // The directories are opened for others here, so that the modes of the files and sockets
    // themselves are tested.
    for (let at = run; at.startsWith(site.directory); at = path.dirname(at)) chmodSync(at, 0o755);
    chmodSync(path.dirname(site.keyFile), 0o755);
    const { stdout } = spawnSync(process.execPath, ['-e', attempt, site.keyFile, ...sockets], {
      uid: 65_534,
      gid: 65_534,
      encoding: 'utf8',
    });
    t.is(stdout.trim(), 'EACCES EACCES EACCES');
  },
);
