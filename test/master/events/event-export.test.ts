/** Events that a running master sends to webhooks and files. */

import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { type MasterConfig, resolveMasterConfig } from '#config';
import { createLogger, type Master } from '#master';
import { EventBus } from '#master/events/event-bus.ts';
import { EventExporter } from '#master/events/event-export.ts';
import { createMaster } from '#server';
import { createMemoryStore, type Store } from '#store';
import { until } from '../../helpers/deadline.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

interface Sent {
  readonly sequence: number;
  readonly tag: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Starts a webhook that answers with `status` and stores what it receives. */
async function webhook(t: ExecutionContext) {
  const taken: Sent[] = [];
  const state = { status: 200, requests: 0, hangs: false, url: '' };
  const read = async (request: IncomingMessage): Promise<string> => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    return Buffer.concat(parts).toString();
  };
  const server = createServer(async (request, response) => {
    const body = await read(request);
    state.requests += 1;
    if (state.hangs) return;
    if (state.status === 200) taken.push(...JSON.parse(body).events);
    response.writeHead(state.status).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : 0;
  state.url = `http://127.0.0.1:${port}/events`;
  return { state, taken };
}

async function startMaster(
  t: ExecutionContext,
  root: string,
  eventExport: MasterConfig['eventExport'],
): Promise<Master> {
  const master = createMaster({
    interface: '127.0.0.1',
    publishPort: 0,
    requestPort: 0,
    pkiDir: path.join(root, 'pki'),
    cacheDir: path.join(root, 'cache'),
    socketDir: path.join(root, 's'),
    stateDir: path.join(root, 'state'),
    eventExport,
  });
  await master.start();
  t.teardown(() => master.close());
  return master;
}

test('matching events reach a webhook and a file, including those of an outage of both', async (t) => {
  const root = temporaryDirectory(t);
  const { state, taken } = await webhook(t);
  const file = path.join(root, 'events.jsonl');
  writeFileSync(file, '{"half');
  const exports: MasterConfig['eventExport'] = [
    {
      name: 'hook',
      webhook: state.url,
      match: ['mine/*'],
      exclude: ['*/not'],
      allowPlainHttp: true,
    },
    { name: 'archive', file, match: ['mine/*'] },
  ];
  const first = await startMaster(t, root, exports);
  await first.events.fire('mine/1', { a: 1, big: 2n ** 60n });
  await first.events.fire('other/1', {});
  await first.events.fire('mine/not', {});
  await until('the exporter', () => taken.length >= 1);
  state.status = 500;
  await first.events.fire('mine/2', {});
  await until('the exporter', () => state.requests >= 2);
  await first.close();
  t.deepEqual(
    taken.map(({ tag }) => tag),
    ['mine/1'],
  );
  state.status = 200;
  const second = await startMaster(t, root, exports);
  await second.events.fire('mine/3', {});
  await until('the exporter', () => taken.length >= 3);
  t.deepEqual(
    taken.map(({ tag }) => tag),
    ['mine/1', 'mine/2', 'mine/3'],
  );
  t.is(taken[0]?.data.a, 1);
  const lines = (): string[] => readFileSync(file, 'utf8').trimEnd().split('\n');
  await until('the exporter', () => lines().length >= 5);
  const [half, ...whole] = lines();
  t.is(half, '{"half');
  t.deepEqual(
    whole.map((line) => JSON.parse(line).tag),
    ['mine/1', 'mine/not', 'mine/2', 'mine/3'],
  );
  t.regex(whole[0] ?? '', /"big":1152921504606846976/);
});

async function openExporter(
  t: ExecutionContext,
  url: string,
  maxBytes: number,
  store: Store = createMemoryStore(),
) {
  const bus = new EventBus({ maxEventBytes: 0 });
  let dropped = 0;
  const exporter = await EventExporter.open({
    exports: [{ name: 'hook', webhook: url, match: ['mine/*'], allowPlainHttp: true }],
    maxBytes,
    store,
    bus,
    log: createLogger('quiet'),
    onDropped: (events) => {
      dropped += events;
    },
  });
  t.teardown(() => exporter.close());
  return { bus, exporter, dropped: () => dropped };
}

test('over the limit the oldest are dropped, counted, and reported by one event', async (t) => {
  const { state, taken } = await webhook(t);
  state.status = 503;
  const { bus, exporter, dropped } = await openExporter(t, state.url, 20_000);
  const told: string[] = [];
  const reader = bus.subscribe({ accepts: (tag) => tag === 'saltbridge/export/dropped' });
  (async () => {
    for await (const { tag } of reader) told.push(tag);
  })().catch(() => {});
  for (let i = 0; i < 100; i++) {
    bus.fire(`mine/${i}`, { i, text: 'x'.repeat(1000) });
    if (i % 10 === 9) await sleep(5);
  }
  await until('the exporter', () => dropped() >= 75);
  t.true(exporter.waitingBytes <= 20_000);
  t.is(told.length, 1);
  state.status = 200;
  await until('the exporter', () => taken.at(-1)?.tag === 'mine/99');
  t.is(taken.length + dropped(), 100);
  t.deepEqual(
    taken.map(({ data }) => data.i),
    Array.from({ length: taken.length }, (_, i) => 100 - taken.length + i),
  );
});

test('events are written in slices, and written events are not read back', async (t) => {
  const { state, taken } = await webhook(t);
  const store = createMemoryStore();
  const [writes, reads]: [number[], number[]] = [[], []];
  const [write, stream] = [store.write.bind(store), store.stream.bind(store)];
  store.write = (operations) => {
    writes.push(operations.length);
    return write(operations);
  };
  store.stream = (name) => {
    const opened = stream(name);
    const read: typeof opened.read = async (options) => {
      const records = await opened.read(options);
      reads.push(records.length);
      return records;
    };
    return { read, consumer: (it) => opened.consumer(it), trim: (it) => opened.trim(it) };
  };
  const { bus, exporter } = await openExporter(t, state.url, 10_000_000, store);
  for (let i = 0; i < 600; i++) bus.fire(`mine/${i}`, { i });
  await until('the exporter', () => taken.length === 600 && exporter.waitingBytes === 0);
  t.deepEqual(
    taken.map(({ data }) => data.i),
    Array.from({ length: 600 }, (_, i) => i),
  );
  t.true(Math.max(...writes) <= 256, `${writes}`);
  t.deepEqual([...new Set(reads)], [0, 1]);
});

test('large events are sent a few at a time', async (t) => {
  const { state, taken } = await webhook(t);
  state.hangs = true;
  const store = createMemoryStore();
  const { bus, exporter } = await openExporter(t, state.url, 10_000_000, store);
  bus.fire('mine/larger', { text: 'x'.repeat(2_000_000) });
  for (let i = 0; i < 4; i++) bus.fire(`mine/${i}`, { text: 'x'.repeat(400_000) });
  await until('the exporter', () => exporter.waitingBytes > 3_600_000);
  await exporter.close();
  Object.assign(state, { hangs: false, requests: 0 });
  await openExporter(t, state.url, 10_000_000, store);
  await until('the exporter', () => taken.length === 5);
  t.is(state.requests, 3, 'the one that is larger than a batch, and twice two of the others');
});

test('firing does not wait for receivers', async (t) => {
  const { state } = await webhook(t);
  state.hangs = true;
  const { bus, exporter } = await openExporter(t, state.url, 1_000_000);
  bus.fire('mine/first', {});
  await until('the exporter', () => state.requests >= 1);
  const before = exporter.waitingBytes;
  for (let i = 0; i < 1000; i++) bus.fire(`mine/${i}`, { i });
  // Each event needs more than ten bytes.
  await until('the exporter', () => exporter.waitingBytes > before + 10_000);
  t.is(state.requests, 1, 'all of them are kept while it has not answered');
});

test('unconfirmed events are sent again to the receiver after a crash', async (t) => {
  const { state, taken } = await webhook(t);
  state.hangs = true;
  const store = createMemoryStore();
  const { bus, exporter } = await openExporter(t, state.url, 1_000_000, store);
  bus.fire('mine/1', {});
  await until('the exporter', () => state.requests >= 1);
  await exporter.close();
  state.hangs = false;
  await openExporter(t, state.url, 1_000_000, store);
  await until('the exporter', () => taken.length >= 1);
  t.is(taken[0]?.tag, 'mine/1');
});

for (const [what, item] of Object.entries({
  'no name': { webhook: 'https://a.test/' },
  'a plain address': { name: 'a', webhook: 'http://a.test/' },
  'a password in the address': { name: 'a', webhook: 'https://u:p@a.test/' },
  'a relative file': { name: 'a', file: 'x' },
  'two kinds': { name: 'a', file: '/x', webhook: 'https://a.test/' },
  'another member': { name: 'a', file: '/x', colour: 'red' },
})) {
  test(`an export with ${what} is refused`, (t) => {
    const options = { eventExport: [item] } as unknown as Partial<MasterConfig>;
    t.throws(() => resolveMasterConfig(options), { code: 'ERR_OPTION_TYPE' });
  });
}
