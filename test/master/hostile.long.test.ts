/**
 * Hostile input over real sockets: messages changed before and after encryption on both ports,
 * invalid framing, and connections that occupy resources. The master runs in its own process, so
 * that its memory can be measured.
 */
import test, { type ExecutionContext } from 'ava';
import { Dealer, Subscriber } from 'zeromq';
import type { MasterStatus } from '#master';
import { within } from '../helpers/deadline.ts';
import { effort, seedOf } from '../helpers/effort.ts';
import {
  allowedGrowth,
  growthDuring,
  type MasterProcess,
  startMasterProcess,
} from '../helpers/measured-process.ts';
import { isAnswerOfSalt, isRefusal, mutated, type Random, seeded } from '../helpers/mutations.ts';
import { altered, freshNonce, openReply, recorded } from '../helpers/vector-requests.ts';
import { openRaw, type RawPeer } from '../helpers/zeromq-master.ts';
import {
  frame,
  GREETING,
  HELLO,
  hex,
  longHeader,
  READY_REQ,
  READY_SUB,
} from '../helpers/zmtp-bytes.ts';

const startEvent = recorded('minion_event', 'start event v3');

/** Number of requests on one connection: fewer than the refused requests that end a connection. */
const requestsPerConnection = 200;

/** Sends many concurrent requests through libzmq and counts the replies. */
class Asker {
  readonly #address: string;
  refusals = 0;
  alien = 0;

  constructor(port: number) {
    this.#address = `tcp://127.0.0.1:${port}`;
  }

  async askAll(count: number, make: () => Buffer): Promise<void> {
    for (let asked = 0; asked < count; asked += requestsPerConnection) {
      const requests = Array.from({ length: requestsPerConnection }, make);
      for (const reply of await this.#ask(requests)) {
        if (!isAnswerOfSalt(reply)) this.alien += 1;
        if (isRefusal(reply)) this.refusals += 1;
      }
    }
  }

  /** Checks that a valid request is answered. */
  async isServed(t: ExecutionContext): Promise<void> {
    const nonce = freshNonce();
    const [reply] = await this.#ask([altered(startEvent, { load: { nonce } })]);
    t.is(openReply(startEvent, reply ?? Buffer.alloc(0), nonce), null);
  }

  async #ask(requests: readonly Buffer[]): Promise<Buffer[]> {
    const socket = new Dealer({ linger: 0, sendHighWaterMark: 0, receiveHighWaterMark: 0 });
    socket.connect(this.#address);
    try {
      const replies = within(`${requests.length} answers`, receive(socket, requests.length));
      for (const request of requests) await socket.send([null, request]);
      return await replies;
    } finally {
      socket.close();
    }
  }
}

async function receive(socket: Dealer, count: number): Promise<Buffer[]> {
  const replies: Buffer[] = [];
  while (replies.length < count) {
    const [, reply = Buffer.alloc(0)] = await socket.receive();
    replies.push(reply);
  }
  return replies;
}

test('mutated requests, outside or inside the encryption, get possible answers, are counted, and leave no memory behind', async (t) => {
  t.timeout(180_000 * effort);
  const { master, status } = await startMasterProcess(t, 'zeromq');
  const asker = new Asker(status.requestPort);
  const random = seeded(seedOf(20_261_121));
  // The first rounds fill the pools of the allocator and of the garbage collector.
  for (let round = 0; round < 2; round += 1) {
    await asker.askAll(1_000, () => mutated(random));
    await breakFraming(status.requestPort, random);
  }
  await asker.isServed(t);
  const strangers: RawPeer[] = [];
  const growth = await growthDuring(master, async () => {
    strangers.push(...(await holdRequestPort(t, status.requestPort)));
    for (let round = 0; round < 4 * effort; round += 1) {
      await asker.askAll(1_000, () => mutated(random));
      await asker.isServed(t);
      await breakFraming(status.requestPort, random);
    }
  });
  t.is(asker.alien, 0);
  const { status: after } = await master.ask('status');
  t.true(total(after) >= asker.refusals, 'every refusal is counted');
  t.true(growth < allowedGrowth, `grew by ${growth} bytes`);
  for (const { socket } of strangers) socket.destroy();
  await asker.isServed(t);
});

test('a publish port with mutated subscriptions and idle connections serves the next subscriber', async (t) => {
  t.timeout(180_000 * effort);
  const { master, status } = await startMasterProcess(t, 'zeromq');
  const random = seeded(seedOf(20_261_122));
  // The first rounds fill the pools of the allocator and of the garbage collector.
  for (let round = 0; round < 3; round += 1) {
    for (const { socket } of await holdPublishPort(t, status.publishPort)) socket.destroy();
    for (let count = 0; count < 10; count += 1) await breakFraming(status.publishPort, random);
    for (let count = 0; count < 100; count += 1) await master.ask('publish');
  }
  const strangers: RawPeer[] = [];
  const growth = await growthDuring(master, async () => {
    for (const { socket } of strangers.splice(0)) socket.destroy();
    strangers.push(...(await holdPublishPort(t, status.publishPort)));
    for (let round = 0; round < 10 * effort; round += 1) {
      await mutateSubscriptions(status.publishPort, random);
    }
    for (let round = 0; round < 10; round += 1) await breakFraming(status.publishPort, random);
    for (let count = 0; count < 100; count += 1) await master.ask('publish');
  });
  t.true(growth < allowedGrowth, `grew by ${growth} bytes`);
  const known = (await master.ask('status')).status.subscribers;
  const subscriber = new Subscriber({ linger: 0 });
  t.teardown(() => subscriber.close());
  subscriber.subscribe();
  subscriber.connect(`tcp://127.0.0.1:${status.publishPort}`);
  await untilSubscribed(master, known);
  await master.ask('publish');
  const [envelope] = await within('a publication', subscriber.receive());
  t.true((envelope?.length ?? 0) > 20_000);
  for (const { socket } of strangers) socket.destroy();
});

/**
 * Opens connections that send nothing, or the beginning of a message, until the end of the test.
 */
async function holdRequestPort(t: ExecutionContext, port: number): Promise<RawPeer[]> {
  const beginnings = [
    [],
    [GREETING.subarray(0, 10)],
    [GREETING],
    [GREETING, READY_REQ],
    [GREETING, READY_REQ, frame(1, ''), longHeader(3, 20_000n), new Uint8Array(20_000)],
    [GREETING, READY_REQ, frame(1, ''), longHeader(2, 2n ** 33n), new Uint8Array(1000)],
    [GREETING, READY_REQ, frame(1, ''), longHeader(2, 10_000_000n), new Uint8Array(1000)],
    [GREETING, READY_REQ, ...Array.from({ length: 200 }, () => frame(1, 'part'))],
  ];
  return hold(t, port, beginnings, 160);
}

async function holdPublishPort(t: ExecutionContext, port: number): Promise<RawPeer[]> {
  const topics = Array.from({ length: 900 }, (_, index) =>
    frame(0, `\u0001${'t'.repeat(100)}${index}`),
  );
  const tooMany = Array.from({ length: 3000 }, (_, index) =>
    frame(0, `\u0001${'t'.repeat(200)}${index}`),
  );
  const everything = frame(0, '\u0001');
  const beginnings = [
    [],
    [GREETING.subarray(0, 30)],
    [GREETING, READY_SUB],
    [GREETING, READY_SUB, everything],
    [GREETING, READY_SUB, ...topics],
    [GREETING, READY_SUB, ...tooMany],
    [GREETING, READY_SUB, longHeader(2, 2n ** 40n)],
    [GREETING, READY_SUB, frame(1, 'unfinished')],
  ];
  const peers = await hold(t, port, beginnings, 80);
  for (const { socket } of peers) socket.pause();
  return peers;
}

async function hold(
  t: ExecutionContext,
  port: number,
  beginnings: ReadonlyArray<readonly Uint8Array[]>,
  count: number,
): Promise<RawPeer[]> {
  const peers: RawPeer[] = [];
  for (let index = 0; index < count; index += 1) {
    const peer = await openRaw(port);
    t.teardown(() => peer.socket.destroy());
    peer.write(...(beginnings[index % beginnings.length] ?? []));
    peers.push(peer);
  }
  return peers;
}

/** Opens twenty connections with invalid framing. */
async function breakFraming(port: number, random: Random): Promise<void> {
  const good = Buffer.concat([GREETING, READY_REQ, HELLO, HELLO]);
  const nonsense = [
    Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'),
    hex('16030100a5010000a10303'),
    Buffer.from('SSH-2.0-OpenSSH_9.2\r\n'),
  ];
  const connections = Array.from({ length: 20 }, async (_, index) => {
    const peer = await openRaw(port);
    const bytes = Buffer.from(nonsense[index] ?? good);
    for (let flips = 0; flips < 4; flips += 1) bytes[random(bytes.length)] = random(256);
    peer.write(bytes);
    peer.socket.end();
    await peer.closed('whose framing is broken');
  });
  await Promise.all(connections);
}

/** Sends 200 subscriptions with changed bytes, ten per connection. */
async function mutateSubscriptions(port: number, random: Random): Promise<void> {
  const connections = Array.from({ length: 20 }, async () => {
    const peer = await openRaw(port);
    const messages = Array.from({ length: 10 }, (_, index) => {
      const bytes = Buffer.from(frame(0, `\u0001topic ${index}`));
      for (let flips = 1 + random(3); flips > 0; flips -= 1) {
        bytes[random(bytes.length)] = random(256);
      }
      return bytes.subarray(0, random(4) === 0 ? random(bytes.length) : bytes.length);
    });
    peer.write(GREETING, READY_SUB, ...messages);
    peer.socket.end();
    await peer.closed('whose subscriptions are broken');
  });
  await Promise.all(connections);
}

async function untilSubscribed(master: MasterProcess, known: number): Promise<void> {
  const end = performance.now() + 10_000;
  while ((await master.ask('status')).status.subscribers <= known) {
    if (performance.now() > end) throw new Error('waited 10 s for the subscriber');
  }
}

function total({ counters }: MasterStatus): number {
  return Object.values(counters).reduce((sum, count) => sum + count, 0);
}
