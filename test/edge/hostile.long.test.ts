/** Strangers and malicious sites, on real sockets. */

import path from 'node:path';
import test from 'ava';
import { pino } from 'pino';
import Type from 'typebox';
import { reaction } from '#config';
import type { SiteInfo } from '#edge';
import { generateKey } from '#edge/identity/ed25519.ts';
import { renewalOf } from '#edge/identity/renewal.ts';
import { siteRow, sitesPrefix } from '#edge/identity/site-rows.ts';
import { edgeLimits } from '#edge/limits.ts';
import { encodeProof, signHello, unsignedHello } from '#edge/link/handshake.ts';
import { HandshakeMessages } from '#edge/link/handshake-messages.ts';
import { Ingest, type IngestOptions } from '#edge/log/ingest.ts';
import { createSilentLogger } from '#master';
import { packLocal } from '#minion-protocol';
import { defineRow, openEmbeddedStore } from '#store';
import { memoryRows } from './bundles/tuf-stage.ts';
import { eventually, siteInfo, startCentre } from './edge-stage.ts';
import { batchOf, entryOf, helloOf, joinRaw, RawLink } from './raw-site.ts';
import { sitesSection } from './sections.ts';

const nothing = Buffer.alloc(0);

test('a stranger with another key, and the key of another site, are refused', async (t) => {
  const centre = await startCentre(t);
  const north = await joinRaw(t, centre, 'north');
  await joinRaw(t, centre, 'south');
  const stranger = { ...north, key: generateKey() };
  for (const identity of [stranger, { ...north, name: 'south' }, { ...north, name: 'nowhere' }]) {
    const link = await RawLink.signIn(t, centre, identity);
    t.is(await link.closed, 4403);
  }
  const sites = await centre.rpc('site').call<readonly SiteInfo[]>('list');
  t.true(sites.every(({ isConnected }) => !isConnected));
  const link = await RawLink.signIn(t, centre, north);
  t.true(await link.isWelcome());
});

test('a recorded handshake cannot be repeated', async (t) => {
  const centre = await startCentre(t);
  const north = await joinRaw(t, centre, 'north');
  const hello = helloOf('north');
  const first = await RawLink.open(t, centre);
  first.socket.send(unsignedHello(hello));
  const challenge = await first.next();
  const proof = encodeProof(north.key, hello, challenge, nothing);
  first.socket.send(proof);
  t.true(await first.isWelcome());
  const second = await RawLink.open(t, centre);
  second.socket.send(unsignedHello(hello));
  await second.next();
  second.socket.send(proof);
  t.is(await second.closed, 4403);
});

test('a handshake that claims a binding to TLS is refused on a connection without TLS', async (t) => {
  const centre = await startCentre(t);
  const link = await RawLink.open(t, centre);
  const hello = helloOf('north', { isBound: true });
  link.socket.send(signHello(generateKey(), hello, nothing));
  t.is(await link.closed, 4400);
});

test('large, malformed and early messages end a handshake', async (t) => {
  const centre = await startCentre(t);
  for (const messages of [
    [Buffer.alloc(5121)],
    [Buffer.from('nonsense')],
    [packLocal({ site: 'north' })],
    [unsignedHello(helloOf('north')), Buffer.alloc(1), Buffer.alloc(1)],
    [unsignedHello(helloOf('north', { isBound: true }))],
    [unsignedHello(helloOf('north')), packLocal({ signature: Buffer.alloc(64), more: 1 })],
  ]) {
    const link = await RawLink.open(t, centre);
    for (const message of messages) link.socket.send(message);
    t.is(await link.closed, 4400);
  }
});

test('an address with too many refused handshakes is rejected unread, and may not join', async (t) => {
  const centre = await startCentre(t);
  let refused = 0;
  await eventually(async () => {
    try {
      const link = await RawLink.open(t, centre);
      link.socket.send(Buffer.from('nonsense'));
      await link.closed;
      refused += 1;
      return refused > 100;
    } catch (error) {
      return /status 429/.test(String(error));
    }
  });
  t.true(refused >= 60 && refused < 100);
  const headers = { 'content-type': 'application/json' };
  // The limit grows by one for each second.
  await eventually(async () => {
    const request = { method: 'POST', headers, body: '{}' };
    return (await fetch(`${centre.url}/site/v1/join`, request)).status === 429;
  });
});

test('an address may have 128 handshakes at a time, and one more when one ends', async (t) => {
  const centre = await startCentre(t);
  const silent: RawLink[] = [];
  for (let count = 0; count < 128; count += 1) silent.push(await RawLink.open(t, centre));
  await t.throwsAsync(RawLink.open(t, centre), { message: 'status 503' });
  silent[0]?.socket.terminate();
  await eventually(async () => {
    const link = await RawLink.open(t, centre).catch(() => undefined);
    return link !== undefined;
  });
  t.pass();
});

test('malformed and too large frames of a site end its connection', async (t) => {
  const centre = await startCentre(t);
  const north = await joinRaw(t, centre, 'north');
  const cases = [
    [Buffer.from('nonsense'), 4400],
    [packLocal([0, -1, 'log.turn', {}]), 4400],
    [packLocal([9, 1, 'log.turn', {}]), 4400],
    [Buffer.alloc(65_537), 1009],
  ] as const;
  for (const [bytes, code] of cases) {
    const link = await RawLink.signIn(t, centre, north);
    t.true(await link.isWelcome());
    link.socket.send(bytes);
    t.is(await link.closed, code);
  }
});

test('unknown messages and parameters of a wrong form are refused, and the connection stays', async (t) => {
  const centre = await startCentre(t);
  const link = await RawLink.signIn(t, centre, await joinRaw(t, centre, 'north'));
  t.true(await link.isWelcome());
  for (const [name, params] of [
    ['log.unknown', {}],
    ['constructor', {}],
    ['log.alarm', { log: 'A'.repeat(16), entries: 'text', site: 'south' }],
    ['log.alarm', { ...batchOf([entryOf(1, 'event', {})]), site: 'south' }],
    ['log.turn', { text: 'x'.repeat(1000) }],
    ['bundle.report', { version: 1e300, saltbridge: '1' }],
  ] as const) {
    t.like(await link.ask(name, params), { kind: 'failure', code: 'ERR_SITE_MESSAGE' });
  }
});

test('a site with too many open requests loses its connection', async (t) => {
  const centre = await startCentre(t);
  const link = await RawLink.signIn(t, centre, await joinRaw(t, centre, 'north'));
  t.true(await link.isWelcome());
  const params = batchOf([entryOf(1, 'event', { tag: 'a', data: {} })]);
  for (let id = 1; id <= 200; id += 1) {
    link.socket.send(packLocal([0, id, 'log.alarm', params]));
  }
  t.is(await link.closed, 4400);
});

test('a site that floods heartbeats loses its connection', async (t) => {
  const centre = await startCentre(t);
  const link = await RawLink.signIn(t, centre, await joinRaw(t, centre, 'north'));
  t.true(await link.isWelcome());
  for (let count = 0; count < 100; count += 1) link.socket.ping();
  t.is(await link.closed, 4400);
});

test('a second connection of a site replaces the first', async (t) => {
  const centre = await startCentre(t);
  const north = await joinRaw(t, centre, 'north');
  const first = await RawLink.signIn(t, centre, north);
  t.true(await first.isWelcome());
  const second = await RawLink.signIn(t, centre, north);
  t.true(await second.isWelcome());
  t.is(await first.closed, 4409);
  t.true((await siteInfo(centre, 'north')).isConnected);
});

test('a repeated batch is acknowledged and applied once, and a gap is refused', async (t) => {
  const centre = await startCentre(t);
  const link = await RawLink.signIn(t, centre, await joinRaw(t, centre, 'north'));
  t.true(await link.isWelcome());
  const event = (number: number) => entryOf(number, 'event', { tag: `a/${number}`, data: {} });
  const batch = batchOf([event(1), event(2)]);
  const acknowledged = { kind: 'reply', value: { sequence: 2, refused: [] } };
  t.like(await link.ask('log.alarm', batch), acknowledged);
  t.like(await link.ask('log.alarm', batch), acknowledged);
  const overlapping = batchOf([event(2), event(3)]);
  t.like(await link.ask('log.alarm', overlapping), { value: { sequence: 3, refused: [] } });
  const gap = await link.ask('log.alarm', batchOf([event(5)]));
  t.like(gap, { value: { sequence: 3, refused: [] } });
  const marked = batchOf([{ from: 2, to: 5, oldestAt: 1 }, event(6)]);
  for (const repeated of [marked, marked, batch]) {
    t.like(await link.ask('log.alarm', repeated), { value: { sequence: 6, refused: [] } });
  }
  const entries = await centre.rpc('site').call<readonly object[]>('entries', { name: 'north' });
  t.is(entries.length, 4);
  const { alarm } = (await siteInfo(centre, 'north')).log;
  t.like(alarm, { sequence: 6, dropped: 2, refused: 0 });
});

// EDGE-C6 of docs/consistency.md
test('a revocation waits for the batches that are being applied', async (t) => {
  let begin = (): void => {};
  let apply = (): void => {};
  const hasBegun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const mayApply = new Promise<void>((resolve) => {
    apply = resolve;
  });
  const handlers = new Map<string, (params: unknown, from: unknown) => Promise<unknown>>();
  const shared = memoryRows({ now: 0 });
  const site = siteRow.encode({ name: 'north', state: 'joined' });
  await shared.write([{ op: 'put', key: [...sitesPrefix, 'north'], value: site }]);
  const parts = {
    host: { logger: createSilentLogger(), shared },
    options: { parallelSites: 1 },
    links: {
      handle: (
        { name }: { readonly name: string },
        handler: (params: unknown, from: unknown) => Promise<unknown>,
      ) => handlers.set(name, handler),
      onEnded: () => {},
    },
    sites: { isJoined: () => true },
  };
  // Only these members are used.
  const ingest = new Ingest(parts as unknown as IngestOptions);
  const done: string[] = [];
  ingest.on('minion', {
    operations: async () => {
      begin();
      await mayApply;
      done.push('applied');
      return [];
    },
  });
  const from = { site: 'north' };
  const batch = batchOf([entryOf(1, 'minion', { minion: 'web1' })]);
  await handlers.get('log.turn')?.({}, from);
  const applied = handlers.get('log.fact')?.(batch, from);
  await hasBegun;
  const settled = ingest.settle('north').then(() => done.push('settled'));
  await ingest.settle('south');
  apply();
  await Promise.all([applied, settled]);
  t.deepEqual(done, ['applied', 'settled']);
});

test('a centre that ended during a revocation releases the minions of the site when it starts', async (t) => {
  const former = await startCentre(t);
  const link = await RawLink.signIn(t, former, await joinRaw(t, former, 'north'));
  t.true(await link.isWelcome());
  await former.rpc('site').call('revoke', { name: 'north' });
  await former.server.close();
  const store = await openEmbeddedStore({ directory: path.join(former.stateDir, 'store') });
  const key = ['state', 'site', 'centre', 'minion', 'web1'];
  const value = defineRow({ name: 'claim', schema: Type.Object({ site: Type.String() }) }).encode({
    site: 'north',
  });
  await store.write([{ op: 'put', key, value }]);
  await store.close();
  const centre = await startCentre(t, {}, former.directory);
  const south = await RawLink.signIn(t, centre, await joinRaw(t, centre, 'south'));
  t.true(await south.isWelcome());
  await south.ask('log.turn', {});
  const facts = { minion: 'web1', present: true, grains: {} };
  const reply = await south.ask('log.fact', batchOf([entryOf(1, 'minion', facts)]));
  t.like(reply, { value: { sequence: 1, refused: [] } });
});

test('facts with times far ahead are refused, and do not move the clock of the centre', async (t) => {
  const centre = await startCentre(t, { sites: sitesSection({ factAheadSeconds: 60 }) });
  const link = await RawLink.signIn(t, centre, await joinRaw(t, centre, 'north'));
  t.true(await link.isWelcome());
  t.like(await link.ask('log.turn', {}), { kind: 'reply' });
  const facts = (present: boolean) => ({ minion: 'web1', present, grains: {} });
  const now = Date.now();
  const ahead = now + 86_400_000;
  const reply = await link.ask(
    'log.fact',
    batchOf([
      entryOf(1, 'minion', facts(true), now),
      entryOf(2, 'minion', facts(false), ahead),
      entryOf(3, 'minion', facts(false), now - 5000),
    ]),
  );
  t.like(reply, { kind: 'reply', value: { sequence: 3 } });
  t.regex(JSON.stringify(reply), /"refused":\[\{"sequence":2,"reason":"ERR_SITE_CLOCK/);
  const minions = await Array.fromAsync(
    centre.rpc('site').stream<{ isPresent: boolean; at: { ms: number } }>('minions'),
  );
  t.like(minions, [{ isPresent: true, at: { ms: now } }]);
});

test('returns and facts are refused without a turn, and sites have turns in order', async (t) => {
  const centre = await startCentre(t, { sites: sitesSection({ parallelSites: 1 }) });
  const [north, south] = [
    await RawLink.signIn(t, centre, await joinRaw(t, centre, 'north')),
    await RawLink.signIn(t, centre, await joinRaw(t, centre, 'south')),
  ];
  t.true(await north.isWelcome());
  t.true(await south.isWelcome());
  const batch = batchOf([entryOf(1, 'event', { tag: 'a', data: {} })]);
  t.like(await north.ask('log.return', batch), { kind: 'failure', code: 'ERR_SITE_LINK' });
  t.like(await north.ask('log.turn', {}), { kind: 'reply' });
  const turn = south.ask('log.turn', {});
  t.like(await north.ask('log.return', batch), { kind: 'reply' });
  t.is(await Promise.race([turn, Promise.resolve('waiting')]), 'waiting');
  north.socket.terminate();
  t.like(await turn, { kind: 'reply' });
  t.like(await south.ask('log.return', batch), { kind: 'reply' });
});

test('a site cannot send what only the centre sends, and too large grains are refused', async (t) => {
  const centre = await startCentre(t);
  const link = await RawLink.signIn(t, centre, await joinRaw(t, centre, 'north'));
  t.true(await link.isWelcome());
  await link.ask('log.turn', {});
  const grains = { text: 'x'.repeat(20_000) };
  const value = { minion: 'web1', present: true, grains };
  const reply = await link.ask('log.fact', batchOf([entryOf(1, 'minion', value)]));
  t.regex(JSON.stringify(reply), /too large/);
});

test('one site cannot use up the rate of a reaction', async (t) => {
  const counted = reaction('counted', {
    on: 'saltbridge/site/*/fire',
    do: { runner: { fun: 'manage.present' } },
  });
  const centre = await startCentre(t, { reactions: [{ ...counted, rate: '8/hour' }] });
  const { master } = centre.server;
  const send = async (site: string, count: number): Promise<void> => {
    const link = await RawLink.signIn(t, centre, await joinRaw(t, centre, site));
    t.true(await link.isWelcome());
    const event = { tag: 'fire', data: {} };
    const items = Array.from({ length: count }, (_, index) => entryOf(index + 1, 'event', event));
    t.like(await link.ask('log.alarm', batchOf(items)), { value: { sequence: count } });
  };
  await send('north', 9);
  await eventually(async () => (await master.status()).counters['reaction-rate'] === 3);
  await send('south', 1);
  await eventually(async () => (await master.reactions.runs()).length === 7);
  const tags = (await master.reactions.runs()).map((run) => run.tag);
  t.is(tags.filter((tag) => tag === 'saltbridge/site/south/fire').length, 1);
});

test('a site that renews its key again and again is refused, and the others are not', async (t) => {
  const centre = await startCentre(t);
  const { burst = 0 } = edgeLimits.keyRenewals.rate ?? {};
  const [north, south] = [await joinRaw(t, centre, 'north'), await joinRaw(t, centre, 'south')];
  const link = await RawLink.signIn(t, centre, north);
  t.true(await link.isWelcome());
  const renew = () => link.ask('identity.renew', renewalOf('north', generateKey(), north.key));
  for (let sent = 0; sent < burst; sent += 1) t.like(await renew(), { kind: 'reply' });
  let last = await renew();
  for (let sent = 0; sent < 100 && last.kind === 'reply'; sent += 1) last = await renew();
  t.like(last, { kind: 'failure', code: 'ERR_SITE_LINK' });
  const other = await RawLink.signIn(t, centre, south);
  t.true(await other.isWelcome());
  const renewal = renewalOf('south', generateKey(), south.key);
  t.like(await other.ask('identity.renew', renewal), { kind: 'reply' });
});

test('a site that connects again and again is refused, and the others are not', async (t) => {
  const now = Date.now();
  const lines: string[] = [];
  const logger = pino({ level: 'warn' }, { write: (line: string) => lines.push(line) });
  const centre = await startCentre(t, { now: () => now, logger });
  const { burst = 0 } = edgeLimits.acceptedHandshakes.rate ?? {};
  const [north, south] = [await joinRaw(t, centre, 'north'), await joinRaw(t, centre, 'south')];
  for (let accepted = 0; accepted < burst; accepted += 1) {
    const link = await RawLink.signIn(t, centre, north);
    t.true(await link.isWelcome());
    link.socket.terminate();
  }
  const link = await RawLink.signIn(t, centre, north);
  const messages = new HandshakeMessages(link.socket, { maxBytes: 1024, maxAdvance: 1 });
  const message = 'the connection ended: the site connects too often; retry later';
  await t.throwsAsync(messages.next(), { code: 'ERR_SITE_LINK', message });
  t.is(await link.closed, 4429);
  const warnings = lines.filter((line) => line.includes('connects too often'));
  t.deepEqual(
    warnings.map((line) => JSON.parse(line).site),
    ['north'],
  );
  const other = await RawLink.signIn(t, centre, south);
  t.true(await other.isWelcome());
});
