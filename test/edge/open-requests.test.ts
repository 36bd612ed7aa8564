/** Memory that a site, or a stranger, can take at the centre with requests and unfinished messages. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { Duplex } from 'node:stream';
import test, { type ExecutionContext } from 'ava';
import Type from 'typebox';
import { generateKey, publicBytesOf } from '#edge/identity/ed25519.ts';
import { seal } from '#edge/identity/sealed-box.ts';
import { CentreConnections, type CentreLinksOptions } from '#edge/link/centre-connections.ts';
import { decodeFrame, encodeFrame } from '#edge/link/frames.ts';
import { encodeProof, readChallenge, unsignedHello } from '#edge/link/handshake.ts';
import { defineMessage, maxEarlyRequests } from '#edge/link/link.ts';
import { createSilentLogger } from '#master';
import { packLocal } from '#minion-protocol';
import { helloOf, RawLink } from './raw-site.ts';

const nothing = Buffer.alloc(0);

/** Request that the centre answers only when the test permits it. */
const waitMessage = defineMessage({
  name: 'test.wait',
  sender: 'site',
  class: 'alarm',
  params: Type.Object({}),
  reply: Type.Object({}),
  isEarly: true,
});

/** Opens the connections of a centre that permits every site, without a master. */
async function stage(t: ExecutionContext) {
  const key = generateKey();
  /** Checks of the handshake, which a test can delay. */
  const checks = { authenticate: async () => {}, noteContacts: async () => {} };
  const links = new CentreConnections({
    key,
    sites: {
      complete: () => {},
      onRevoked: () => {},
      authenticate: () => checks.authenticate(),
      noteContacts: () => checks.noteContacts(),
    },
    members: {
      memberOf: () => {},
      onMoved: () => {},
      noteOpened: async () => {},
      noteEnded: async () => {},
    },
    now: Date.now,
    logger: createSilentLogger(),
  } as unknown as CentreLinksOptions);
  /** Functions that answer the waiting requests. */
  const waiting: (() => void)[] = [];
  let onRequest = (): void => {};
  links.handle(waitMessage, () => {
    onRequest();
    return new Promise((resolve) => waiting.push(() => resolve({})));
  });
  /** Resolves when this number of requests has reached the handler since the start. */
  const reached = async (count: number): Promise<string> => {
    while (waiting.length < count) {
      await new Promise<void>((resolve) => {
        onRequest = resolve;
      });
    }
    return 'handled';
  };
  const sockets: Duplex[] = [];
  const server = createServer();
  server.on('upgrade', (request, socket, head) => {
    sockets.push(socket);
    links.upgrade(request, socket, head);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    links.close();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no address');
  const centre = { url: `http://127.0.0.1:${address.port}` };
  return { centre, centreKey: publicBytesOf(key), waiting, reached, sockets, links, checks };
}

const north = { name: 'north', key: generateKey() };

test('the open requests of a site are counted over all its connections, until they are handled', async (t) => {
  const { centre, waiting, reached } = await stage(t);
  const signIn = async (name = 'north'): Promise<RawLink> => {
    const link = await RawLink.signIn(t, centre, { ...north, name });
    t.true(await link.isWelcome());
    return link;
  };
  const first = await signIn();
  for (let id = 1; id <= 32; id += 1) first.sendRequest(id, 'test.wait', {});
  await reached(32);
  first.socket.terminate();
  const second = await signIn();
  second.sendRequest(1, 'test.wait', {});
  t.is(await Promise.race([second.closed, reached(33)]), 4400);
  const south = await signIn('south');
  south.sendRequest(1, 'test.wait', {});
  await reached(33);
  waiting[0]?.();
  const third = await signIn();
  third.sendRequest(1, 'test.wait', {});
  await reached(34);
  waiting[33]?.();
  t.like(decodeFrame(await third.next()), { kind: 'reply', id: 1 });
});

test('requests in handshakes count as open, also if the site chooses none of the connections', async (t) => {
  const { centre, centreKey, waiting, reached } = await stage(t);
  const probe = await RawLink.open(t, centre);
  const probed = helloOf('north');
  probe.socket.send(unsignedHello(probed));
  const { sealKey } = readChallenge(centreKey, probed, await probe.next(), nothing);
  const frames = Array.from({ length: maxEarlyRequests }, (_, id) =>
    encodeFrame({ kind: 'request', id, name: 'test.wait', params: {} }),
  );
  const early = seal(packLocal(frames), sealKey, 'north');
  const open = async (): Promise<RawLink> => {
    const link = await RawLink.open(t, centre);
    const hello = helloOf('north', { early });
    link.socket.send(unsignedHello(hello));
    link.socket.send(encodeProof(north.key, hello, await link.next(), nothing));
    t.is((await link.next()).length, 0, 'the welcome');
    return link;
  };
  for (let count = 1; count <= 8; count += 1) {
    const link = await open();
    await reached(count * maxEarlyRequests);
    link.socket.terminate();
  }
  const last = await open();
  for (let id = 0; id < maxEarlyRequests; id += 1) {
    const reply = await Promise.race([last.next(), reached(33)]);
    t.true(reply instanceof Buffer);
    if (reply instanceof Buffer) t.like(decodeFrame(reply), { kind: 'failure', id });
  }
  t.is(waiting.length, 32);
});

test('a message of a stranger in many fragments ends the connection before it is complete', async (t) => {
  const { centre } = await stage(t);
  const inFragments = async (message: Buffer, count: number): Promise<RawLink> => {
    const link = await RawLink.open(t, centre);
    const size = Math.ceil(message.length / count);
    for (let index = 0; index < count; index += 1) {
      const part = message.subarray(index * size, (index + 1) * size);
      link.socket.send(part, { binary: true, fin: index === count - 1 });
    }
    return link;
  };
  const accepted = await inFragments(unsignedHello(helloOf('north')), 16);
  t.true((await accepted.next()).length > 0, 'the challenge');
  const refused = await inFragments(unsignedHello(helloOf('north')), 17);
  t.is(await refused.closed, 1008);
});

test('a frame of a stranger that arrives in many parts ends the connection before it is complete', async (t) => {
  const { centre, sockets } = await stage(t);
  const inParts = async (count: number): Promise<number> => {
    const link = await RawLink.open(t, centre);
    const socket = sockets.at(-1);
    const length = 60_000;
    const mask = [0, 0, 0, 0];
    socket?.emit('data', Buffer.from([0x82, 0xfe, length >> 8, length & 255, ...mask]));
    for (let index = 0; index < count; index += 1) socket?.emit('data', Buffer.of(0));
    socket?.emit('data', Buffer.alloc(length - count));
    return link.closed;
  };
  t.is(await inParts(1000), 4400, 'complete, and too large for a handshake');
  t.is(await inParts(2000), 1008);
});

for (const step of ['authenticate', 'noteContacts'] as const) {
  test(`a site that is revoked during the handshake is not connected (${step})`, async (t) => {
    const { centre, links, checks } = await stage(t);
    const begun = Promise.withResolvers<void>();
    const mayContinue = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    checks[step] = async () => {
      begun.resolve();
      await mayContinue.promise;
      setImmediate(ended.resolve);
    };
    const link = await RawLink.signIn(t, centre, north);
    await begun.promise;
    links.end('north');
    mayContinue.resolve();
    await ended.promise;
    t.false(await link.isWelcome());
    t.false(links.isConnected('north'));
  });
}
