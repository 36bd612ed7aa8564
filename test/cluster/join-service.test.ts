/** Temporary backups that a member creates for new members. */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import {
  encodeFrame,
  frameKinds,
  type JoinRequest,
  makeTicket,
  newExchangeKeys,
  parseTicket,
  sealBody,
} from '#cluster/join-frames.ts';
import { JoinService, type JoinServiceDeps } from '#cluster/join-service.ts';
import { LogCipher } from '#cluster/log/cipher.ts';
import { createSilentLogger } from '#master';
import { createMemoryStore } from '#store';
import { until } from '../helpers/deadline.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const secret = new Uint8Array(32);

interface Opened {
  readonly directory: string;
  readonly service: JoinService;
  /** Kinds of the frames that the member sent. */
  readonly sent: (number | undefined)[];
  /** Sends the request of a new member. */
  readonly ask: () => Promise<void>;
  /** Requests a chunk of the backup. May be called after {@link ask}. */
  readonly askChunk: (chunk: number) => void;
  readonly clock: { at: number };
}

/** Opens the service of a member whose directory has the content of an interrupted transfer. */
function open(
  t: ExecutionContext,
  handOver: JoinServiceDeps['cluster']['store']['handOver'],
  closing: AbortSignal = new AbortController().signal,
): Opened {
  const directory = temporaryDirectory(t);
  mkdirSync(path.join(directory, 'handover-old'));
  writeFileSync(path.join(directory, 'handover-old', 'backup'), 'old');
  writeFileSync(path.join(directory, 'other'), '');
  const sent: (number | undefined)[] = [];
  let deliver: (bytes: Uint8Array) => void = () => {};
  const log = {
    announce: (bytes: Uint8Array) => void sent.push(bytes[0]),
    onAnnouncement: (listener: (bytes: Uint8Array) => void) => {
      deliver = listener;
    },
  };
  const cluster: JoinServiceDeps['cluster'] = {
    name: 'c',
    secret,
    log,
    store: { handOver },
    status: () => ({ members: [] }),
  };
  const store = createMemoryStore();
  const clock = { at: 0 };
  const monotonic = (): number => clock.at;
  const logger = createSilentLogger();
  const deps = { cluster, store, directory, now: Date.now, monotonic, log: logger, closing };
  const service = new JoinService(deps);
  t.teardown(() => service.close());
  let send: (body: JoinRequest) => void = () => {};
  const ask = async (): Promise<void> => {
    const { id, expiresAt } = parseTicket((await service.ticket(60)).ticket);
    const { key } = makeTicket(cluster, { id, expiresAt });
    const publicKey = newExchangeKeys().publicKey.toString('base64');
    const cipher = new LogCipher(Buffer.from(key, 'hex'), 'c', 'ticket');
    send = (body) => deliver(encodeFrame(frameKinds.request, id, sealBody(cipher, body)));
    send({ kind: 'join', request: 'r', member: 'b', publicKey });
  };
  const askChunk = (chunk: number): void => send({ kind: 'chunk', request: 'r', chunk });
  return { directory, service, sent, ask, askChunk, clock };
}

test('a member deletes the backup for a new member if it cannot hand it over', async (t) => {
  const { directory, service, sent, ask } = open(t, async (file) => {
    writeFileSync(file, 'part of a backup');
    throw new Error('the disk is full');
  });
  await ask();
  await until('the refusal', () => sent.length > 0);
  t.deepEqual(sent, [frameKinds.reply]);
  await service.close();
  t.deepEqual(readdirSync(directory), ['other']);
});

test('a member that closes leaves no backup for a new member behind', async (t) => {
  const end = new AbortController();
  const begun = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  const opened = open(
    t,
    async (file) => {
      begun.resolve();
      await goOn.promise;
      writeFileSync(file, 'backup');
      return { file, bytes: 6 };
    },
    end.signal,
  );
  await opened.ask();
  await begun.promise;
  end.abort();
  await opened.service.close();
  goOn.resolve();
  await until('the refusal', () => opened.sent.length > 0);
  t.deepEqual(readdirSync(opened.directory), ['other']);
});

test('a member deletes the backups that an earlier process left behind', async (t) => {
  const { directory, service } = open(t, async (file) => ({ file, bytes: 0 }));
  await service.close();
  t.deepEqual(readdirSync(directory), ['other']);
});

test('a member sends only the chunk that was requested last again, and after a pause', async (t) => {
  const chunkBytes = 262_144;
  const bytes = 3 * chunkBytes;
  const opened = open(t, async (file) => {
    writeFileSync(file, Buffer.alloc(bytes));
    return { file, bytes };
  });
  const { sent, ask, askChunk, clock } = opened;
  const replies = (count: number): Promise<void> =>
    until(`${count} replies`, () => sent.length >= count);
  await ask();
  await replies(1);
  for (let times = 0; times < 100; times += 1) askChunk(0);
  await replies(2);
  for (let times = 0; times < 100; times += 1) askChunk(0);
  askChunk(1);
  await replies(3);
  clock.at += 500;
  for (const chunk of [0, -1, 3, 0.5]) askChunk(chunk);
  for (let times = 0; times < 100; times += 1) askChunk(1);
  await replies(4);
  askChunk(2);
  await replies(5);
  await opened.service.close();
  t.is(sent.length, 5);
});
