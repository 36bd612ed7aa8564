/** Turns of the event loop in which TLS handshakes start. */

import { once } from 'node:events';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type ConnectionOptions, connect } from 'node:tls';
import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import { ConnectionGuard, type TlsOptions } from '#minion-protocol';
import { maxHelloBytes, readClientHello } from '#minion-protocol/transport/client-hello.ts';
import type { GuardLimits } from '#minion-protocol/transport/connection-guard.ts';
import { HandshakeTurns, type StartHandshake } from '#minion-protocol/transport/handshake-turns.ts';
import { transportLimits } from '#minion-protocol/transport/limits.ts';
import { DEFAULT_CONNECTION_LIMITS } from '#minion-protocol/transport/stream-listener.ts';
import { listenSecurely, loadTls } from '#minion-protocol/transport/tls.ts';
import { until, within } from '../helpers/deadline.ts';
import { startStream } from '../helpers/stream-masters.ts';
import { clientHello, renegotiation } from '../helpers/tls-client.ts';
import { connectRaw, HOST } from '../helpers/zeromq-master.ts';

const { total: ofOneTurn = 0 } = transportLimits.handshakes;
const supportedGroups = 10;
const keyShare = 51;
const noGroup = 0xfa00;
const served = {
  certFile: file('master.pem'),
  keyFile: file('master.key'),
  clientCertificates: 'none',
} as const;

test('one turn of the event loop starts four handshakes, and addresses take turns', async (t) => {
  const { enter, order } = queue();
  for (let n = 0; n < 8; n += 1) enter('a');
  enter('b');
  enter('c');
  t.deepEqual(order, []);
  await nextTurn();
  t.deepEqual(order.splice(0), ['a', 'b', 'c', 'a']);
  await nextTurn();
  t.deepEqual(order.splice(0), ['a', 'a', 'a', 'a']);
  enter('d');
  await nextTurn();
  t.deepEqual(order, ['a', 'd', 'a']);
});

test('an ended connection uses no place in a turn', async (t) => {
  const { enter, order } = queue();
  for (let n = 0; n < 100; n += 1) enter(`gone ${n}`, { isEnded: true });
  enter('a');
  await nextTurn();
  t.deepEqual(order, ['a']);
});

test('handshakes of known addresses do not wait for those of strangers', async (t) => {
  const { enter, order } = queue();
  for (let n = 0; n < 100; n += 1) enter(`stranger ${n}`);
  enter('known', { isKnown: true });
  await nextTurn();
  t.true(order.includes('known'));
  t.is(order.length, ofOneTurn + 1);
});

test('handshakes of strangers use half of the time while connections arrive', async (t) => {
  const { enter, order, arrive, pass } = queue();
  for (let n = 0; n < 40; n += 1) enter('a', { costMs: 5 });
  const started: number[] = [];
  for (let turn = 0; turn < 8; turn += 1) {
    arrive();
    await nextTurn();
    started.push(order.splice(0).length);
    pass(7);
  }
  t.deepEqual(started, [4, 0, 0, 4, 0, 0, 4, 0]);
  enter('known', { isKnown: true });
  arrive();
  await nextTurn();
  t.deepEqual(order.splice(0), ['known']);
  await nextTurn();
  t.is(order.length, ofOneTurn);
});

test('a handshake waits for a turn only after its whole ClientHello has arrived', async (t) => {
  const hello = await clientHello();
  const { port, entered, start } = await listen(t);
  const peer = await connectRaw(t, port);
  const other = await connectRaw(t, port);
  peer.write(hello.subarray(0, -1));
  other.write(hello);
  await until('the whole one', () => entered.length === 1);
  peer.write(hello.subarray(-1));
  await until('the last byte', () => entered.length === 2);
  t.deepEqual(start(), [true, true]);
});

test('a ClientHello in several records is awaited as a whole', async (t) => {
  const hello = await clientHello();
  const { port, entered, start } = await listen(t);
  const peer = await connectRaw(t, port);
  const [first, ...rest] = recordsOf(hello, [1, 200, 300]);
  peer.write(first ?? Buffer.alloc(0));
  await nextTurn();
  t.is(entered.length, 0);
  peer.write(...rest);
  await until('all records', () => entered.length === 1);
  start();
  await until('the answer', () => peer.receivedBytes > 500);
});

for (const [title, bytes] of [
  ['that is none', async () => Buffer.from('GET / HTTP/1.1\r\n\r\n')],
  ['of SSL 2', async () => Buffer.from('80', 'hex')],
  ['that is another message', async () => Buffer.from('160301000102', 'hex')],
  ['with bytes behind it', async () => Buffer.concat([await clientHello(), Buffer.alloc(20_000)])],
] as const) {
  test(`a connection is refused with a ClientHello ${title}`, async (t) => {
    const { port, entered, refusals } = await listen(t);
    const peer = await connectRaw(t, port);
    peer.write(await bytes());
    await peer.closed(title);
    t.deepEqual(entered, []);
    t.deepEqual(refusals(), ['tls-handshake']);
  });
}

test('a connection is refused with a ClientHello of any size', async (t) => {
  const { port, refusals } = await listen(t);
  const peer = await connectRaw(t, port);
  peer.write(unendingHello());
  await peer.closed('an unending ClientHello');
  t.deepEqual(refusals(), ['tls-handshake']);
});

test('a connection counts as a new one of its address before and during its handshake, but not while it waits', async (t) => {
  const limits = { maxNewConnectionsPerAddress: 2 };
  const { port, entered, refusals, start } = await listen(t, { limits });
  const hello = await clientHello();
  const peers = [];
  for (const count of [1, 2, 3]) {
    const peer = await connectRaw(t, port);
    peer.write(hello);
    await until('it waits', () => entered.length === count);
    peers.push(peer);
  }
  t.deepEqual(refusals(), []);
  t.deepEqual(start(), [true, true, true]);
  await peers[0]?.closed('the oldest');
  t.deepEqual(refusals(), ['too-many-from-address']);
});

test('the bytes of an incomplete or waiting ClientHello count as memory of its address', async (t) => {
  const hello = await clientHello();
  const limits = { maxHeldBytesPerAddress: hello.length + 200 };
  const { port, entered, refusals } = await listen(t, { limits });
  (await connectRaw(t, port)).write(hello);
  await until('it waits', () => entered.length === 1);
  const peer = await connectRaw(t, port);
  peer.write(hello.subarray(0, -1));
  await peer.closed('too many bytes');
  t.deepEqual(refusals(), ['held-bytes-from-address']);
});

test('a connection is refused if too many handshakes wait', async (t) => {
  const { port, refusals } = await listen(t, { mayWait: false });
  const peer = await connectRaw(t, port);
  peer.write(await clientHello());
  await peer.closed('too many handshakes');
  t.deepEqual(refusals(), ['too-many-handshakes']);
});

test('a client that sends more before the answer is refused', async (t) => {
  const { port, entered, refusals, start } = await listen(t);
  const peer = await connectRaw(t, port);
  peer.write(await clientHello());
  await until('the ClientHello', () => entered.length === 1);
  peer.write(record(Buffer.alloc(10)));
  await peer.closed('more bytes');
  t.deepEqual(refusals(), ['tls-handshake']);
  t.deepEqual(start(), [false]);
});

test('a client that needs a second ClientHello is refused', async (t) => {
  const master = await startStream(t, 'tcp', { tls: served });
  const hello = await clientHello();
  const peer = await connectRaw(t, master.requestPort);
  peer.write(withoutKeyShares(hello));
  await peer.closed('a request for a second ClientHello');
  t.deepEqual(master.transport.refusals(), { 'tls-handshake': 1 });
  const other = await connectRaw(t, master.requestPort);
  other.write(hello);
  await until('the answer', () => other.receivedBytes > 500);
});

test('a malformed ClientHello is refused once', async (t) => {
  const master = await startStream(t, 'tcp', { tls: served });
  const hello = Buffer.from(await clientHello());
  hello.fill(0, 43, 80);
  const peer = await connectRaw(t, master.requestPort);
  peer.write(hello);
  await peer.closed('a malformed ClientHello');
  await nextTurn();
  t.deepEqual(master.transport.refusals(), { 'tls-handshake': 1 });
});

test('the private key is not used for RSA key exchange, unless ciphers are configured', async (t) => {
  const rsa = { maxVersion: 'TLSv1.2', ciphers: 'AES256-GCM-SHA384' } as const;
  const options = { ...served, certFile: file('rsa.pem'), keyFile: file('rsa.key') };
  t.is(await connected(t, options, rsa), 'ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE');
  t.is(await connected(t, { ...options, ciphers: 'AES256-GCM-SHA384' }, rsa), 'TLSv1.2');
  t.is(await connected(t, options, { maxVersion: 'TLSv1.2' }), 'TLSv1.2');
});

test('a client is served with a key share of any group, whatever else it supports', async (t) => {
  for (const ecdhCurve of ['P-384:X25519', 'P-521:P-384:P-256', 'X25519:X25519MLKEM768']) {
    t.is(await connected(t, served, { ecdhCurve }), 'TLSv1.3');
  }
});

test('a client cannot renegotiate', async (t) => {
  const { requestPort } = await startStream(t, 'tcp', { tls: served });
  t.regex(await renegotiation(t, requestPort), /no renegotiation/i);
});

test('a ClientHello in too many records is refused', async (t) => {
  const hello = await clientHello();
  const inRecords = (count: number): Buffer =>
    Buffer.concat(
      recordsOf(
        hello,
        Array.from({ length: count - 1 }, () => 1),
      ),
    );
  t.true(readClientHello(inRecords(64))?.isComplete);
  t.is(readClientHello(inRecords(65)), undefined);
});

test('a ClientHello is read the same in any records', async (t) => {
  const hello = await clientHello();
  const older = await clientHello({ maxVersion: 'TLSv1.2' });
  const sizes = fc.array(fc.integer({ min: 1, max: 300 }), { maxLength: 10 });
  fc.assert(
    fc.property(sizes, fc.boolean(), fc.nat(), (lengths, isOlder, cut) => {
      const records = Buffer.concat(recordsOf(isOlder ? older : hello, lengths));
      t.deepEqual(readClientHello(records), { isComplete: true, offersTls13: !isOlder });
      const part = records.subarray(0, cut % records.length);
      t.deepEqual(readClientHello(part), { isComplete: false, offersTls13: false });
    }),
  );
});

test('any bytes can be read as a ClientHello', (t) => {
  const content = fc.uint8Array({ maxLength: 200 });
  fc.assert(
    fc.property(content, (bytes) => {
      const message = Buffer.concat([Buffer.from([1, 0, 0, bytes.length]), bytes]);
      t.is(readClientHello(Buffer.concat(recordsOf(record(message), [])))?.isComplete, true);
      t.notThrows(() => readClientHello(Buffer.from(bytes)));
    }),
  );
});

interface Peer {
  readonly isKnown?: boolean;
  readonly isEnded?: boolean;
  /** Time that the handshake takes, in milliseconds. */
  readonly costMs?: number;
}

/** Creates turns, and records the addresses whose handshakes start. */
function queue(): {
  readonly enter: (limitKey: string, peer?: Peer) => void;
  readonly order: string[];
  /** Accepts a connection. */
  readonly arrive: () => void;
  /** Lets time pass. */
  readonly pass: (ms: number) => void;
} {
  let time = 0;
  const turns = new HandshakeTurns(() => time);
  const order: string[] = [];
  const pass = (ms: number): void => {
    time += ms;
  };
  return {
    order,
    pass,
    arrive: () => turns.noteArrival(),
    enter: (limitKey, { isKnown = false, isEnded = false, costMs = 0 } = {}) => {
      turns.tryEnter({ limitKey, isKnown }, () => {
        if (isEnded) return false;
        order.push(limitKey);
        // TLS signs in the next tick.
        process.nextTick(pass, costMs);
        return true;
      });
    },
  };
}

interface Listening {
  readonly port: number;
  /** Addresses whose handshakes wait for a turn. */
  readonly entered: readonly string[];
  /** Returns the reasons of refusals. */
  readonly refusals: () => readonly string[];
  /** Starts the waiting handshakes. Returns which of them could start. */
  readonly start: () => readonly boolean[];
}

/** Binds a port whose handshakes start when the test starts them. */
async function listen(
  t: ExecutionContext,
  { mayWait = true, limits = {} }: { mayWait?: boolean; limits?: Partial<GuardLimits> } = {},
): Promise<Listening> {
  const guard = new ConnectionGuard({ ...DEFAULT_CONNECTION_LIMITS, ...limits }, () =>
    performance.now(),
  );
  const entered: string[] = [];
  const starts: StartHandshake[] = [];
  const { port, server } = await listenSecurely(
    { host: HOST, port: 0, backlog: 10, keepAliveIdleMs: null },
    loadTls(served),
    {
      turns: {
        noteArrival: () => {},
        tryEnter: ({ limitKey }, start) => {
          entered.push(limitKey);
          starts.push(start);
          return mayWait;
        },
      },
      onConnection: (socket) => {
        const owner = { onEnd: () => socket.destroy(), finish: () => {} };
        const rules = { awaitsRequest: true, keepsStalled: true };
        const guarded = guard.admit(HOST, rules, owner);
        return guarded && { guarded, open: () => {} };
      },
      onRefused: (reason) => guard.count(reason),
    },
  );
  t.teardown(() => {
    guard.endAll();
    server.close();
  });
  return {
    port,
    entered,
    refusals: () => Object.keys(guard.refusals()),
    start: () => starts.splice(0).map((start) => start()),
  };
}

/** Returns the record that contains these bytes of a handshake. */
function record(bytes: Uint8Array): Buffer {
  const header = Buffer.from([22, 3, 1, 0, 0]);
  header.writeUInt16BE(bytes.length, 3);
  return Buffer.concat([header, bytes]);
}

/** Divides a message that is in one record into several records with these sizes, and a rest. */
function recordsOf(hello: Buffer, sizes: readonly number[]): readonly Buffer[] {
  let rest = hello.subarray(5);
  const records = sizes.map((size) => {
    const part = rest.subarray(0, size);
    rest = rest.subarray(size);
    return record(part);
  });
  return [...records, record(rest)].filter(({ length }) => length > 5);
}

/** Returns the begin of a ClientHello whose declared size is the largest. */
function unendingHello(): Buffer {
  const records = Array.from({ length: 2 }, () => record(Buffer.alloc(maxHelloBytes / 2)));
  Buffer.from([1, 255, 255, 255]).copy(records[0] ?? Buffer.alloc(4), 5);
  return Buffer.concat(records);
}

/** Replaces the groups for which a ClientHello has key shares by groups that do not exist. */
function withoutKeyShares(hello: Buffer): Buffer {
  const changed = Buffer.from(hello);
  const renamed = new Map<number, number>();
  for (const [type, start, end] of [...extensionsOf(changed)].reverse()) {
    if (type === keyShare) {
      for (let at = start + 2; at < end; at += 4 + changed.readUInt16BE(at + 2)) {
        renamed.set(changed.readUInt16BE(at), noGroup + renamed.size);
        changed.writeUInt16BE(noGroup + renamed.size - 1, at);
      }
    }
    if (type === supportedGroups) {
      for (let at = start + 2; at < end; at += 2) {
        const group = changed.readUInt16BE(at);
        changed.writeUInt16BE(renamed.get(group) ?? group, at);
      }
    }
  }
  return changed;
}

/** Returns the type, the start and the end of each extension of a ClientHello. */
function* extensionsOf(hello: Buffer): Generator<readonly [number, number, number]> {
  let at = 9 + 34;
  at += 1 + hello.readUInt8(at);
  at += 2 + hello.readUInt16BE(at);
  at += 1 + hello.readUInt8(at);
  for (at += 2; at < hello.length; ) {
    const end = at + 4 + hello.readUInt16BE(at + 2);
    yield [hello.readUInt16BE(at), at + 4, end];
    at = end;
  }
}

/** Connects to a listener with TLS. Returns the version, or the code of the error. */
async function connected(
  t: ExecutionContext,
  tls: TlsOptions,
  options: ConnectionOptions,
): Promise<string | null | undefined> {
  const master = await startStream(t, 'tcp', { tls });
  const socket = connect({ ...options, port: master.requestPort, rejectUnauthorized: false });
  t.teardown(() => socket.destroy());
  try {
    await within('the handshake', once(socket, 'secureConnect'));
    return socket.getProtocol();
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : String(error);
  }
}

function file(name: string): string {
  return join('test', 'fixtures', 'tls', name);
}
