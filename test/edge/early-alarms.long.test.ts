/** Alarms that a site sends with its hello, and the choice among several connections. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import test, { type ExecutionContext } from 'ava';
import type { SiteInfo } from '#edge';
import { generateKey } from '#edge/identity/ed25519.ts';
import { readKey } from '#edge/identity/key-file.ts';
import { renewalOf } from '#edge/identity/renewal.ts';
import {
  deriveSealKey,
  generateSealKey,
  seal,
  sealKeyOf,
  unseal,
} from '#edge/identity/sealed-box.ts';
import type { SiteIdentity } from '#edge/identity/site-identity.ts';
import { decodeFrame, encodeFrame } from '#edge/link/frames.ts';
import {
  encodeProof,
  helloHeader,
  maxEarlyBytes,
  readChallenge,
  readHello,
  unsignedHello,
} from '#edge/link/handshake.ts';
import { packLocal, unpackLocal, type WireMap } from '#minion-protocol';
import {
  type Centre,
  eventually,
  siteInfo,
  siteStatus,
  startCentre,
  startSite,
} from './edge-stage.ts';
import { HostProbe } from './host-probe.ts';
import { batchOf, entryOf, helloOf, joinRaw, RawLink } from './raw-site.ts';

const nothing = Buffer.alloc(0);
const limits = { maxBytes: 8192, maxDepth: 2, maxElements: 8 };

function alarm(sequence: number, tag = `fire/${sequence}`): WireMap {
  return batchOf([entryOf(sequence, 'event', { tag, data: {} })]);
}

/** Returns the key to which a site seals early requests. */
async function sealKey(t: ExecutionContext, centre: Centre, identity: SiteIdentity) {
  const link = await RawLink.open(t, centre);
  const hello = helloOf(identity.name);
  link.socket.send(unsignedHello(hello));
  const challenge = await link.next();
  link.socket.terminate();
  return readChallenge(identity.centreKey, hello, challenge, nothing).sealKey;
}

interface Hello {
  readonly name?: string;
  readonly params: WireMap;
  readonly key: Uint8Array;
  /** Identity whose key signs the proof. Default: the identity of the site. */
  readonly signer?: SiteIdentity;
}

/** Opens a connection with an early request, and sends the proof. */
async function open(
  t: ExecutionContext,
  centre: Centre,
  identity: SiteIdentity,
  { name = 'log.alarm', params, key, signer = identity }: Hello,
): Promise<RawLink> {
  const frame = encodeFrame({ kind: 'request', id: 0, name, params });
  const hello = helloOf(identity.name, { early: seal(packLocal([frame]), key, identity.name) });
  const sent = unsignedHello(hello).toString('base64url');
  const link = await RawLink.open(t, centre, { [helloHeader]: sent });
  link.socket.send(encodeProof(signer.key, hello, await link.next(), nothing));
  return link;
}

async function stage(t: ExecutionContext) {
  const centre = await startCentre(t);
  const north = await joinRaw(t, centre, 'north');
  return { centre, north, key: await sealKey(t, centre, north) };
}

async function lastAlarm(centre: Centre): Promise<number> {
  return (await siteInfo(centre, 'north')).log.alarm?.sequence ?? 0;
}

test('the centre applies an alarm of the hello when it accepts the site, and none of a stranger', async (t) => {
  const { centre, north, key } = await stage(t);
  const link = await open(t, centre, north, { params: alarm(1), key });
  t.is((await link.next()).length, 0, 'the welcome');
  t.like(decodeFrame(await link.next()), { kind: 'reply', id: 0, value: { sequence: 1 } });
  t.false((await siteInfo(centre, 'north')).isConnected, 'not chosen yet');
  const south = await joinRaw(t, centre, 'south');
  const params = alarm(2, 'fire/stranger');
  const stranger = await open(t, centre, north, { params, key, signer: south });
  t.is(await stranger.closed, 4403);
  // A later alarm of the site shows that the one of the stranger was not merely late.
  const again = await open(t, centre, north, { params: alarm(2, 'fire/north'), key });
  await again.next();
  t.like(decodeFrame(await again.next()), { kind: 'reply', id: 0, value: { sequence: 2 } });
  const entries = await centre.rpc('site').call<readonly object[]>('entries', { name: 'north' });
  t.regex(JSON.stringify(entries), /fire\/north/);
  t.notRegex(JSON.stringify(entries), /fire\/stranger/);
});

test('the centre applies an alarm once that arrives over three connections, and the chosen one stays', async (t) => {
  const { centre, north, key } = await stage(t);
  const params = alarm(1);
  const links = await Promise.all([1, 2, 3].map(() => open(t, centre, north, { params, key })));
  for (const link of links) t.is((await link.next()).length, 0);
  for (const link of links) t.like(decodeFrame(await link.next()), { value: { sequence: 1 } });
  const [first, second, third] = links;
  second?.socket.send(nothing);
  await eventually(async () => (await siteInfo(centre, 'north')).isConnected);
  first?.socket.terminate();
  third?.socket.terminate();
  t.like(await second?.ask('log.alarm', alarm(2)), { kind: 'reply', value: { sequence: 2 } });
  t.true((await siteInfo(centre, 'north')).isConnected);
  const entries = await centre.rpc('site').call<readonly object[]>('entries', { name: 'north' });
  t.is(entries.length, 2);
});

test('an early request of another kind, or sealed to another key, is refused', async (t) => {
  const { centre, north, key } = await stage(t);
  const other = sealKeyOf(generateSealKey());
  for (const hello of [
    { name: 'log.signal', params: alarm(1), key },
    { name: 'log.turn', params: {}, key },
    { name: 'constructor', params: {}, key },
    { params: alarm(1), key: other },
  ]) {
    const link = await open(t, centre, north, hello);
    t.is((await link.next()).length, 0);
    t.like(decodeFrame(await link.next()), { kind: 'failure', id: 0, code: 'ERR_SITE_LINK' });
  }
  t.is(await lastAlarm(centre), 0);
});

test('a site sends an alarm with its hello, and only its centre can read it', async (t) => {
  const { centre } = await stage(t);
  const probe = new HostProbe();
  const site = await startSite(t, centre, 'south', {
    extensions: [probe.extension],
    site: { alarms: ['fire/*'] },
  });
  const isConnected = async () => (await siteInfo(centre, 'south')).isConnected;
  await eventually(isConnected);
  await centre.server.close();
  const hellos: Buffer[] = [];
  const listener = createServer((_request, response) => response.end());
  listener.on('upgrade', ({ headers }, socket) => {
    hellos.push(Buffer.from(String(headers[helloHeader]), 'base64url'));
    socket.destroy();
  });
  await once(listener.listen(centre.port, '127.0.0.1'), 'listening');
  t.teardown(() => listener.close());
  probe.fire('fire/secret-text', { room: 'secret-room' });
  const earlyOf = (bytes: Buffer) => readHello(bytes).hello.early;
  await eventually(() => hellos.some((it) => (earlyOf(it)?.length ?? 0) > 250), 'an early alarm');
  const key = await readKey(`${centre.stateDir}/sites`, 'centre.key');
  if (key === undefined) throw new Error('the centre has no key');
  const requests = hellos.flatMap((bytes) => {
    t.false(bytes.includes('secret'));
    const early = earlyOf(bytes);
    if (early === undefined) return [];
    const frames = unpackLocal(unseal(Buffer.from(early), deriveSealKey(key), 'south'), limits);
    return Array.isArray(frames) ? frames : [];
  });
  const names = requests.map((bytes) => {
    const frame = bytes instanceof Uint8Array ? decodeFrame(bytes) : undefined;
    return frame?.kind === 'request' ? frame.name : '';
  });
  t.true(names.includes('log.alarm') && names.includes('bundle.report'));
  await new Promise((resolve) => listener.close(resolve));
  const restarted = await startCentre(t, {}, centre.directory, centre.port);
  await eventually(async () => (await siteInfo(restarted, 'south')).log.alarm?.sequence === 1);
  await eventually(async () => (await siteStatus(site)).log.alarm.entries === 0);
  const query = { name: 'south', kind: 'event' };
  t.is((await restarted.rpc('site').call<readonly object[]>('entries', query)).length, 1);
});

test('a hello with a larger early request ends the handshake', async (t) => {
  const { centre } = await stage(t);
  const hello = unsignedHello(helloOf('north', { early: Buffer.alloc(maxEarlyBytes + 1) }));
  const link = await RawLink.open(t, centre, { [helloHeader]: hello.toString('base64url') });
  t.is(await link.closed, 4400);
});

test('several connections at once are accepted with a new key', async (t) => {
  const { centre, north } = await stage(t);
  const link = await RawLink.signIn(t, centre, north);
  t.true(await link.isWelcome());
  const key = generateKey();
  t.like(await link.ask('identity.renew', renewalOf('north', key, north.key)), { kind: 'reply' });
  const links = await Promise.all(
    [1, 2, 3].map(() => RawLink.signIn(t, centre, { ...north, key })),
  );
  for (const each of links) t.is((await each.next()).length, 0);
});

test('a request instead of the choice ends the connection, and a revoked site cannot choose', async (t) => {
  const { centre, north, key } = await stage(t);
  const early = await open(t, centre, north, { params: alarm(1), key });
  t.is((await early.next()).length, 0);
  early.sendRequest(1, 'log.alarm', alarm(2));
  t.is(await early.closed, 4400);
  await eventually(async () => (await lastAlarm(centre)) === 1);
  const link = await open(t, centre, north, { params: alarm(1), key });
  t.is((await link.next()).length, 0);
  await centre.rpc('site').call<SiteInfo>('revoke', { name: 'north' });
  link.socket.send(nothing);
  link.sendRequest(9, 'log.turn', {});
  const answered = async (): Promise<string> => {
    for (;;) if (decodeFrame(await link.next()).id === 9) return 'answered';
  };
  t.is(await Promise.race([link.closed, answered().catch(() => link.closed)]), 1006);
  t.false((await siteInfo(centre, 'north')).isConnected);
});
