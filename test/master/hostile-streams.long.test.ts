/**
 * Hostile input over TCP and WebSocket: requests changed before and after encryption, on
 * connections that end in every way. The master runs in its own process, so that its memory can be
 * measured.
 */
import test, { type ExecutionContext } from 'ava';
import { until } from '../helpers/deadline.ts';
import { effort, seedOf } from '../helpers/effort.ts';
import { allowedGrowth, growthDuring, startMasterProcess } from '../helpers/measured-process.ts';
import { mutated, type Random, seeded } from '../helpers/mutations.ts';
import {
  clientFrame,
  OPENING,
  STREAMS,
  type Stream,
  SUBSCRIPTION,
} from '../helpers/stream-masters.ts';
import { altered, freshNonce, openReply, recorded } from '../helpers/vector-requests.ts';
import { openRaw, type RawPeer } from '../helpers/zeromq-master.ts';

const startEvent = recorded('minion_event', 'start event v3');
/** The bytes of `{head: {mid: 1}, body: …}` before the body. */
const tcpHead = Buffer.from('82a46865616481a36d696401a4626f6479', 'hex');

/** Adds the framing that a minion uses around a request. */
const framed: Readonly<Record<Stream, (body: Buffer) => Buffer>> = {
  tcp: (body) => Buffer.concat([tcpHead, body]),
  ws: (body) => clientFrame(0x82, body),
};

for (const stream of STREAMS) {
  test.serial(
    `mutated requests over ${stream} and broken connections leave no memory behind, and others are served`,
    async (t) => {
      t.timeout(120_000 * effort);
      const { master, status } = await startMasterProcess(t, stream);
      const random = seeded(seedOf(20_261_123));
      // The first rounds fill the pools of the allocator and of the garbage collector.
      for (let round = 0; round < 3; round += 1) await mistreat(status, stream, random);
      await isServed(t, stream, status.requestPort);
      const growth = await growthDuring(master, async () => {
        for (let round = 0; round < 5 * effort; round += 1) await mistreat(status, stream, random);
        await isServed(t, stream, status.requestPort);
      });
      const { status: after } = await master.ask('status');
      t.true(growth < allowedGrowth, `grew by ${growth} bytes`);
      const refused = Object.values(after.counters).reduce((sum, count) => sum + count, 0);
      t.true(refused > 200, `${refused} refusals are counted`);
      t.is(after.subscribers, 0);
    },
  );
}

interface Ports {
  readonly requestPort: number;
  readonly publishPort: number;
}

/** Sends 200 requests, ten per connection, and opens ten connections to the publish port. */
async function mistreat(ports: Ports, stream: Stream, random: Random): Promise<void> {
  const askers = Array.from({ length: 20 }, async (_, index) => {
    const requests = Array.from({ length: 10 }, () => framed[stream](mutated(random)));
    await leave(await openRaw(ports.requestPort), [OPENING[stream], ...requests], index);
  });
  const subscribers = Array.from({ length: 10 }, async (_, index) => {
    const bytes = Buffer.from(SUBSCRIPTION[stream]);
    for (let flips = random(4); flips > 0; flips -= 1) bytes[random(bytes.length)] = random(256);
    await leave(await openRaw(ports.publishPort), [bytes], index);
  });
  await Promise.all([...askers, ...subscribers]);
}

/**
 * Writes and disconnects: normally, by a reset with data in flight, or after half of the last
 * piece.
 */
async function leave(peer: RawPeer, pieces: readonly Buffer[], kind: number): Promise<void> {
  const bytes = Buffer.concat(pieces);
  peer.write(kind % 3 === 2 ? bytes.subarray(0, bytes.length - 5) : bytes);
  if (kind % 3 === 1) peer.socket.resetAndDestroy();
  else peer.socket.end();
  await peer.closed('after mutated requests');
}

/** Checks that a genuine request is answered. */
async function isServed(t: ExecutionContext, stream: Stream, port: number): Promise<void> {
  const peer = await openRaw(port);
  t.teardown(() => peer.socket.destroy());
  const nonce = freshNonce();
  peer.write(OPENING[stream], framed[stream](altered(startEvent, { load: { nonce } })));
  await until('a good answer', () => answerIn(stream, peer.received) !== undefined);
  t.is(openReply(startEvent, answerIn(stream, peer.received) ?? Buffer.alloc(0), nonce), null);
  peer.socket.end();
}

/** Returns the reply in the received bytes when it is complete. It is shorter than 126 bytes. */
function answerIn(stream: Stream, received: Buffer): Buffer | undefined {
  if (stream === 'tcp') {
    return received.length > tcpHead.length ? received.subarray(tcpHead.length) : undefined;
  }
  const start = received.indexOf('\r\n\r\n') + 4;
  const length = received[start + 1];
  return start > 4 && length !== undefined && received.length >= start + 2 + length
    ? received.subarray(start + 2, start + 2 + length)
    : undefined;
}
