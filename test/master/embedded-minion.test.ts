/** The embedded minion with a master, and its behaviour for each reply of the master. */

import test, { type ExecutionContext } from 'ava';
import { resolveMasterConfig } from '#config';
import type { JobUpdate, RunRequest } from '#master';
import {
  createMinion,
  createTcpListener,
  createWebsocketListener,
  dialZeromq,
  type Minion,
  packWire,
  unpackWire,
} from '#minion-protocol';
import type { MinionOptions, MinionState } from '#minion-protocol/minion/minion.ts';
import type { MinionTransport } from '#minion-protocol/transport/transport.ts';
import { createMaster } from '#server';
import { createMemoryStore } from '#store';
import { until, waitMs, within } from '../helpers/deadline.ts';
import { clientFrame, OPENING, REQUEST, SUBSCRIPTION } from '../helpers/stream-masters.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { directories, startVectorMaster, type VectorMaster } from '../helpers/vector-master.ts';
import { pem } from '../helpers/vectors.ts';
import { connectRaw, HOST } from '../helpers/zeromq-master.ts';

interface Watched {
  readonly minion: Minion;
  readonly states: MinionState['state'][];
  readonly trusted: string[];
  /** Resolves or rejects with the start of the minion. */
  readonly started: Promise<void>;
}

function startMinion(
  t: ExecutionContext,
  transport: MinionTransport,
  options: Partial<MinionOptions> = {},
): Watched {
  const states: MinionState['state'][] = [];
  const trusted: string[] = [];
  const minion = createMinion({
    id: 'web1',
    transport,
    keys: {
      ...pem('minion'),
      masterPem: undefined,
      trustMaster: async (text) => {
        trusted.push(text);
      },
    },
    acceptanceWaitMs: 5,
    onState: ({ state }) => states.push(state),
    ...options,
  });
  t.teardown(() => minion.stop());
  const started = minion.start();
  started.catch(() => {
    // Tests that expect a rejection handle it.
  });
  return { minion, states, trusted, started };
}

async function startMaster(t: ExecutionContext): Promise<VectorMaster> {
  // The minion uses the system's clock for its requests.
  return startVectorMaster(t, {
    keys: [],
    startAt: Date.now(),
    config: { limits: { authsPerSecond: 0 }, rotateAesKey: true },
  });
}

async function startAccepted(
  t: ExecutionContext,
  options: Partial<MinionOptions> = {},
): Promise<{ master: VectorMaster; watched: Watched }> {
  const master = await startMaster(t);
  const watched = startMinion(t, master.dial('web1'), options);
  await until('a pending key', () => watched.states.includes('pending'));
  await master.master.keys.accept({ match: 'web1' });
  await within('the minion to connect', watched.started);
  return { master, watched };
}

async function run({ master }: VectorMaster, request: RunRequest): Promise<JobUpdate[]> {
  const updates: JobUpdate[] = [];
  for await (const update of master.jobs.run({ timeoutSeconds: 30, ...request }))
    updates.push(update);
  return updates;
}

function returnOf(updates: readonly JobUpdate[]): unknown {
  return updates.find((update) => update.type === 'return')?.return;
}

for (const version of [2, 3] as const) {
  test(`a minion of protocol ${version} waits for acceptance, connects and answers`, async (t) => {
    const { master, watched } = await startAccepted(t, { version });
    t.is(watched.minion.state.state, 'connected');
    t.is(watched.trusted.length, 1);
    t.is(returnOf(await run(master, { tgt: 'web1', fun: 'test.ping' })), true);
    const [key] = await master.master.keys.list();
    t.is(key?.protocol, version);
  });
}

test('a rejected minion gives up', async (t) => {
  const master = await startMaster(t);
  const watched = startMinion(t, master.dial('web1'));
  await until('a pending key', () => watched.states.includes('pending'));
  await master.master.keys.reject({ match: 'web1' });
  await t.throwsAsync(within('the end', watched.started), { code: 'ERR_CLOSED' });
  t.is(watched.minion.state.state, 'refused');
});

test('a minion does not trust a master with another fingerprint', async (t) => {
  const master = await startVectorMaster(t, {
    keys: [{ directory: 'minions', id: 'web1', publicPem: pem('minion').publicPem }],
    startAt: Date.now(),
  });
  const problems: unknown[] = [];
  const watched = startMinion(t, master.dial('web1'), {
    masterFinger: 'aa:bb',
    onError: (problem) => problems.push(problem),
  });
  await until('the refusal', () => problems.length > 0);
  t.like(problems[0], { state: 'failed', code: 'ERR_MASTER_FINGER' });
  t.deepEqual(watched.trusted, []);
});

test('after a rotation a minion signs in again, and the publication with the new key is not lost', async (t) => {
  const { master } = await startAccepted(t);
  startMinion(t, master.dial('web2'), {
    id: 'web2',
    keys: { ...pem('other_minion'), masterPem: undefined, trustMaster: async () => {} },
  });
  const rotated = nextEvent(master, 'key');
  await acceptWhenPending(master, 'web2');
  await master.master.keys.delete({ match: 'web2' });
  await within('the rotation', rotated);
  t.is(returnOf(await run(master, { tgt: 'web1', fun: 'test.ping' })), true);
});

test('functions get positional and keyword arguments, and an exception is a failed return', async (t) => {
  const { master } = await startAccepted(t, {
    functions: { 'demo.add': ({ args: [left, right] }) => Number(left) + Number(right) },
  });
  t.is(returnOf(await run(master, { tgt: 'web1', fun: 'demo.add', arg: [2, 3] })), 5);
  const echoed = await run(master, { tgt: 'web1', fun: 'test.arg', arg: [1], kwarg: { k: 'v' } });
  t.deepEqual(JSON.parse(JSON.stringify(returnOf(echoed))), { args: [1], kwargs: { k: 'v' } });
  const failed = await run(master, { tgt: 'web1', fun: 'test.exception', arg: ['boom'] });
  t.like(
    failed.find(({ type }) => type === 'return'),
    { retcode: 1, success: false },
  );
  t.regex(String(returnOf(failed)), /boom/);
});

test('a function that the minion lacks fails by name', async (t) => {
  const { master } = await startAccepted(t);
  const updates = await run(master, { tgt: 'web1', fun: 'cmd.run', arg: ['id'] });
  t.is(returnOf(updates), "'cmd.run' is not available.");
});

test('a running job is found, awaited, and can be killed', async (t) => {
  const { master } = await startAccepted(t);
  const updates: JobUpdate[] = [];
  const request = { tgt: 'web1', fun: 'test.sleep', arg: [60], timeoutSeconds: 0.05 };
  for await (const update of master.master.jobs.run(request)) {
    updates.push(update);
    if (update.type !== 'running') continue;
    await run(master, { tgt: 'web1', fun: 'saltutil.kill_job', arg: [update.jid] });
  }
  t.true(updates.some(({ type }) => type === 'running'));
  t.regex(String(returnOf(updates)), /killed/);
});

test('a return is reported while others are still asked whether they run the job', async (t) => {
  const master = await startVectorMaster(t, {
    keys: [
      { directory: 'minions', id: 'web1', publicPem: pem('minion').publicPem },
      { directory: 'minions', id: 'absent', publicPem: pem('other_minion').publicPem },
    ],
    startAt: Date.now(),
  });
  let release = (): void => {};
  const held = new Promise<boolean>((resolve) => {
    release = () => resolve(true);
  });
  const watched = startMinion(t, master.dial('web1'), {
    functions: {
      'demo.hold': () => held,
      'saltutil.find_job': () => {
        release();
        return { fun: 'demo.hold' };
      },
    },
  });
  await within('the minion to connect', watched.started);
  // Otherwise the job would wait ten minutes for the absent minion.
  const request = {
    tgt: '*',
    fun: 'demo.hold',
    timeoutSeconds: 0.02,
    gatherJobTimeoutSeconds: 600,
  };
  t.is(await within('the return', firstReturn(master, request)), 'web1');
});

test('a job that ends during a query is not reported as silent', async (t) => {
  const master = await startMaster(t);
  let release = (): void => {};
  const held = new Promise<boolean>((resolve) => {
    release = () => resolve(true);
  });
  const watched = startMinion(t, master.dial('web1'), {
    functions: { 'demo.hold': () => held, 'saltutil.find_job': () => ({}) },
  });
  await acceptWhenPending(master, 'web1');
  await within('the minion to connect', watched.started);
  // The return is sent after the master has learned that the minion does not run the job.
  const answered = nextReturnOf(master, 'saltutil.find_job').then(release);
  const request = {
    tgt: 'web1',
    fun: 'demo.hold',
    timeoutSeconds: 0.02,
    gatherJobTimeoutSeconds: 600,
  };
  t.is(returnOf(await within('the return', run(master, request))), true);
  await answered;
});

test('a return without an acknowledgement is sent again, and stored once', async (t) => {
  const master = await startMaster(t);
  const transport = master.dial('web1');
  let lost = 0;
  const watched = startMinion(t, {
    ...transport,
    subscribe: (...parameters) => transport.subscribe(...parameters),
    close: () => transport.close(),
    request: async (body, timeoutMs) => {
      const answer = await transport.request(body, timeoutMs);
      const isFirstReturn =
        watched.minion.state.state === 'connected' && jobsPublished && lost === 0;
      if (!isFirstReturn) return answer;
      lost += 1;
      const { TransportError } = await import('#minion-protocol/transport/transport.ts');
      throw new TransportError('ERR_TIMEOUT', 'the answer was lost');
    },
  });
  let jobsPublished = false;
  await acceptWhenPending(master, 'web1');
  await within('the minion to connect', watched.started);
  const events = await master.eventsDuring(async () => {
    jobsPublished = true;
    t.is(returnOf(await run(master, { tgt: 'web1', fun: 'test.ping' })), true);
    await until('the second try', () => lost === 1);
    await untilCounted(master, 'repeated-return');
  });
  t.is(events.filter(({ tag }) => tag.endsWith('/ret/web1')).length, 1);
});

async function acceptWhenPending({ master }: VectorMaster, id: string): Promise<void> {
  for (;;) {
    const [change] = await master.keys.accept({ match: id });
    if (change !== undefined) return;
    await new Promise(setImmediate);
  }
}

async function untilCounted(master: VectorMaster, reason: string): Promise<void> {
  while (((await master.counters())[reason] ?? 0) === 0) await new Promise(setImmediate);
}

async function nextEvent({ master }: VectorMaster, match: string): Promise<string> {
  for await (const { tag } of await master.events.subscribe({ match })) return tag;
  return '';
}

async function nextReturnOf({ master }: VectorMaster, fun: string): Promise<void> {
  for await (const { data } of await master.events.subscribe({ match: 'salt/job/*/ret/*' })) {
    if (data.fun === fun) return;
  }
}

async function firstReturn({ master }: VectorMaster, request: RunRequest): Promise<string> {
  for await (const update of master.jobs.run(request)) {
    if (update.type === 'return') return update.minion;
  }
  return 'nobody';
}

// One master serves several transports at the same time.

const ping = packWire({ enc: 'clear', load: { cmd: 'ping' } });
const free = { publishPort: 0, retPort: 0 };

test('all three transports are served, shown in the status, and closed', async (t) => {
  const config = resolveMasterConfig({
    ...directories(temporaryDirectory(t)),
    ...free,
    interface: HOST,
    transportOpts: { tcp: free, ws: free },
  });
  const master = createMaster({ config, store: createMemoryStore() });
  t.teardown(() => master.close());
  await master.start();
  const { transports, requestPort, publishPort } = await master.status();
  t.deepEqual(
    transports.map(({ transport }) => transport),
    ['zeromq', 'tcp', 'ws'],
  );
  t.like(transports[0], { requestPort, publishPort });
  t.is(new Set(transports.flatMap((it) => [it.requestPort, it.publishPort])).size, 6);
  const [zeromq, tcp, ws] = transports;

  const minion = dialZeromq({ host: HOST, requestPort: zeromq?.requestPort ?? 0 });
  t.teardown(() => minion.close());
  t.deepEqual(unpackWire(await minion.request(ping, waitMs)), { cmd: 'ping' });
  const overTcp = await connectRaw(t, tcp?.requestPort ?? 0);
  overTcp.write(Buffer.from('82a46865616481a36d696407a4626f6479', 'hex'), ping);
  const overWs = await connectRaw(t, ws?.requestPort ?? 0);
  overWs.write(OPENING.ws, clientFrame(0x82, ping));
  const pong = packWire({ cmd: 'ping' });
  for (const peer of [overTcp, overWs]) {
    await until('the answer', () => peer.received.subarray(-pong.length).equals(pong));
  }

  const subscribers = await Promise.all([
    connectRaw(t, tcp?.publishPort ?? 0),
    connectRaw(t, ws?.publishPort ?? 0),
  ]);
  subscribers[0].write(SUBSCRIPTION.tcp);
  subscribers[1].write(SUBSCRIPTION.ws);
  await until('the handshake', () => subscribers[1].receivedBytes > 0);
  t.is((await master.status()).subscribers, 2);
  await master.close();
  for (const peer of [...subscribers, overTcp, overWs]) await peer.closed('with the master');
});

test('the reply to a sign-in contains the publish port of its transport', async (t) => {
  const ports = { host: HOST, requestPort: 0, publishPort: 0 };
  const listeners = [createTcpListener(ports), createWebsocketListener(ports)];
  const { master } = await startVectorMaster(t, { transports: listeners });
  const { transports } = await master.status();
  // The same bytes are sent twice at the same time.
  const asking = await Promise.all(transports.map((it) => connectRaw(t, it.requestPort)));
  asking[0]?.write(REQUEST.tcp);
  asking[1]?.write(OPENING.ws, REQUEST.ws);
  const name = 'publish_port';
  for (const [index, peer] of asking.entries()) {
    await until('the answer', () => peer.received.includes(name));
    // This is a 16-bit integer after its head byte.
    const port = peer.received.readUInt16BE(peer.received.indexOf(name) + name.length + 1);
    t.is(port, transports[index]?.publishPort ?? 0);
  }
});
