import { readdirSync } from 'node:fs';
import { mkdtemp, open, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Logger } from 'pino';
import Type from 'typebox';
import type { MasterApi } from '#master';
import { errorMessage, hashFile } from '#runtime';
import { defineRow, fromJson, isConflict, type Key, type RowOf, type Store } from '#store';
import {
  decodeFrame,
  encodeFrame,
  formatTicket,
  frameKinds,
  type JoinReply,
  type JoinRequest,
  makeTicket,
  newExchangeKeys,
  newTicketId,
  openBody,
  replyKey,
  sealBody,
} from './join-frames.ts';
import { loadLogEngine } from './log/log-engine.ts';
import type { OpenCluster } from './open-cluster.ts';

const prefix: Key = ['cluster', 'tickets'];
/**
 * Storage time of a used ticket after its expiry, in milliseconds. During this time, the error for
 * a second use states that the ticket was used. Afterwards, the ticket is unknown.
 */
const rememberedMs = 7 * 86_400_000;
const chunkBytes = 262_144;
/** Prefix of the names of directories with temporary backups. */
const joiningPrefix = 'handover-';
/** Time without a new chunk after which the transfer of a backup is cancelled, in milliseconds. */
const idleMs = 120_000;
/**
 * Minimum time before the same chunk is sent again, in milliseconds. It is shorter than the interval
 * at which a joining master repeats a request.
 */
const resendMs = 500;

/** Schema of the store rows for tickets. The id of the ticket is part of the row's key. */
const ticketRow = defineRow({
  name: 'ticket',
  schema: Type.Object({
    expiresAt: Type.Number(),
    /**
     * Name of the member that joined with the ticket, and the id of the member's join request.
     * Absent if the ticket was not used.
     */
    used: Type.Optional(Type.Object({ member: Type.String(), request: Type.String() })),
  }),
  unversioned: fromJson,
});

type TicketRow = RowOf<typeof ticketRow>;

/** A backup of the store that a new member is fetching in chunks. */
interface Handover {
  readonly directory: string;
  readonly file: string;
  readonly answer: JoinReply;
  readonly channel: ReplyChannel;
  readonly chunks: number;
  /** Index of the chunk that was requested last. A new member requests the chunks in order. */
  latest: number;
  /** Time at which this chunk was read, in milliseconds of the monotonic clock. */
  sentAt: number;
  isSending: boolean;
  timer: NodeJS.Timeout;
}

/** Function that sends a reply to one request. */
type ReplyChannel = (answer: JoinReply, content?: Uint8Array) => void;

export interface JoinServiceDeps {
  readonly cluster: Pick<OpenCluster, 'name' | 'secret'> & {
    readonly status: () => Pick<ReturnType<OpenCluster['status']>, 'members'>;
    readonly log: Pick<OpenCluster['log'], 'announce' | 'onAnnouncement'>;
    readonly store: Pick<OpenCluster['store'], 'handOver'>;
  };
  readonly store: Store;
  /** Directory for temporary backups for new members. */
  readonly directory: string;
  readonly now: () => number;
  /** Returns the milliseconds of a monotonic clock. Default: `performance.now`. */
  readonly monotonic?: () => number;
  readonly log: Logger;
  readonly closing: AbortSignal;
}

/**
 * Issues tickets for joining the cluster, and lets a master with a valid ticket join. The store
 * marks the ticket as used before the cluster's secret is sent. A ticket therefore works only once,
 * even if several members receive the request.
 */
export class JoinService {
  readonly #deps: JoinServiceDeps;
  readonly #handovers = new Map<string, Handover>();
  readonly #underWay = new Set<string>();
  readonly #monotonic: () => number;
  /** Resolves when the backups that an earlier process left behind are deleted. */
  readonly #cleaned: Promise<unknown>;

  constructor(deps: JoinServiceDeps) {
    this.#deps = deps;
    this.#monotonic = deps.monotonic ?? (() => performance.now());
    this.#cleaned = Promise.all(this.#leftovers().map((directory) => this.#delete(directory)));
    deps.cluster.log.onAnnouncement((bytes) => {
      const frame = decodeFrame(frameKinds.request, bytes);
      if (frame === undefined) return;
      this.#answer(frame.id, frame.sealed).catch((error: unknown) => {
        deps.log.error({ err: error }, 'cannot answer a request to join the cluster');
      });
    }, deps.closing);
  }

  /** Creates a ticket, which is durable when the promise resolves. */
  async ticket(seconds: number): Promise<Awaited<ReturnType<MasterApi['cluster']['ticket']>>> {
    const { store, now, cluster } = this.#deps;
    const id = newTicketId();
    const expiresAt = now() + seconds * 1000;
    await store.write([this.#put(id, { expiresAt }, 0)]);
    return { ticket: formatTicket(makeTicket(cluster, { id, expiresAt })), expiresAt };
  }

  async close(): Promise<void> {
    await this.#cleaned;
    const handovers = [...this.#handovers.values()];
    this.#handovers.clear();
    for (const { timer } of handovers) clearTimeout(timer);
    await Promise.all(handovers.map(({ directory }) => this.#delete(directory)));
  }

  /**
   * Returns the directories of temporary backups that an earlier process left behind, for example
   * because it was killed. Call it before the first request is answered, because requests create
   * such directories too.
   */
  #leftovers(): string[] {
    const { directory } = this.#deps;
    return readdirSync(directory)
      .filter((name) => name.startsWith(joiningPrefix))
      .map((name) => path.join(directory, name));
  }

  /** Deletes the directory of a temporary backup. A failure is only logged. */
  async #delete(directory: string): Promise<void> {
    try {
      await rm(directory, { recursive: true, force: true });
    } catch (err) {
      const message = 'cannot delete the temporary backup for a new member; delete the directory';
      this.#deps.log.error({ directory, err }, message);
    }
  }

  #put(id: string, row: TicketRow, ifRevision: number) {
    return {
      op: 'put' as const,
      key: [...prefix, id],
      value: ticketRow.encode(row),
      expiresAt: row.expiresAt + rememberedMs,
      ifRevision,
    };
  }

  async #answer(id: string, sealed: Uint8Array): Promise<void> {
    const { store, cluster } = this.#deps;
    const entry = await store.get([...prefix, id]);
    if (entry === undefined) {
      cluster.log.announce(encodeFrame(frameKinds.unknown, id));
      return;
    }
    const row = ticketRow.decode(entry);
    const { LogCipher } = await loadLogEngine();
    const { key } = makeTicket(cluster, { id, expiresAt: row.expiresAt });
    const frames = new LogCipher(Buffer.from(key, 'hex'), cluster.name, 'ticket');
    const opened = openBody<JoinRequest>(frames, sealed);
    if (opened === undefined) return;
    const { body } = opened;
    const known = this.#handovers.get(body.request);
    if (body.kind === 'chunk') {
      if (known !== undefined) await this.#sendChunk(known, body);
      return;
    }
    if (known !== undefined) known.channel(known.answer);
    if (known !== undefined || this.#underWay.has(body.request)) return;
    const { request } = body;
    const own = newExchangeKeys();
    const sealKey = replyKey(key, own, Buffer.from(body.publicKey, 'base64'));
    if (sealKey === undefined) return;
    const sealing = new LogCipher(sealKey, cluster.name, 'ticket');
    const reply: ReplyChannel = (answer, content) => {
      const sealedReply = sealBody(sealing, answer, content);
      const payload = Buffer.concat([own.publicKey, sealedReply]);
      cluster.log.announce(encodeFrame(frameKinds.reply, id, payload));
    };
    const refusal = this.#refusalOf(row, body);
    if (refusal !== undefined) {
      if (refusal !== '') reply({ kind: 'refused', request, message: refusal });
      return;
    }
    this.#underWay.add(request);
    try {
      const used = { member: body.member, request };
      await store.write([this.#put(id, { ...row, used }, entry.revision)]);
      reply(await this.#handOver(body, reply));
      this.#deps.log.info({ member: body.member }, 'a new member joins the cluster with a ticket');
    } catch (error) {
      // The revision has changed because another member has used the ticket and answers.
      if (isConflict(error)) return;
      const message = errorMessage(error);
      reply({ kind: 'refused', request, message });
    } finally {
      this.#underWay.delete(request);
    }
  }

  /**
   * Returns the reason to reject the ticket, or `undefined` if the ticket is valid. An empty text
   * means that another member already answers this request.
   */
  #refusalOf(
    { used, expiresAt }: TicketRow,
    { request, member }: Extract<JoinRequest, { kind: 'join' }>,
  ): string | undefined {
    const { cluster, now } = this.#deps;
    if (used !== undefined && used.request === request) return '';
    if (used !== undefined)
      return `the ticket was already used by member ${used.member}; create a new one`;
    if (expiresAt <= now()) {
      return `the ticket expired at ${new Date(expiresAt).toISOString()}; create a new one`;
    }
    const namesake = cluster.status().members.find((it) => it.name === member);
    if (namesake?.isAlive) {
      return `the cluster already has a running member ${member}; set a different name in saltbridge: cluster: member`;
    }
    return undefined;
  }

  async #handOver(
    { request }: Extract<JoinRequest, { kind: 'join' }>,
    channel: ReplyChannel,
  ): Promise<JoinReply> {
    const { cluster, closing } = this.#deps;
    const directory = await mkdtemp(path.join(this.#deps.directory, joiningPrefix));
    try {
      const file = path.join(directory, 'backup');
      await cluster.store.handOver(file);
      const { size } = await stat(file);
      const chunks = Math.ceil(size / chunkBytes);
      const answer: JoinReply = {
        kind: 'joined',
        request,
        secret: Buffer.from(cluster.secret).toString('base64'),
        chunks,
        sha256: (await hashFile(file, 'sha256')).toString('hex'),
      };
      closing.throwIfAborted();
      const timer = this.#timer(request);
      const progress = { latest: -1, sentAt: 0, isSending: false };
      this.#handovers.set(request, {
        directory,
        file,
        answer,
        channel,
        chunks,
        timer,
        ...progress,
      });
      return answer;
    } catch (error) {
      await this.#delete(directory);
      throw error;
    }
  }

  #timer(request: string): NodeJS.Timeout {
    return setTimeout(() => {
      const handover = this.#handovers.get(request);
      this.#handovers.delete(request);
      if (handover !== undefined) void this.#delete(handover.directory);
    }, idleMs).unref();
  }

  /**
   * Sends a chunk of the backup. The backup is deleted when the time limit of the transfer expires.
   * The first request for each chunk restarts this limit. Repeated requests do not, so an attacker
   * who replays a recorded request cannot keep the backup on disk. Only the chunk that was requested
   * last is sent again, and only after a pause. Otherwise an attacker who replays requests could fill
   * the memory of this member, because the connection to NATS stores what it has not sent yet.
   */
  async #sendChunk(
    handover: Handover,
    { request, chunk }: Extract<JoinRequest, { kind: 'chunk' }>,
  ): Promise<void> {
    const isNext = chunk === handover.latest + 1 && chunk < handover.chunks;
    const isRepeated = chunk === handover.latest && chunk >= 0;
    if (handover.isSending || !(isNext || isRepeated)) return;
    if (isRepeated && this.#monotonic() - handover.sentAt < resendMs) return;
    if (isNext) {
      handover.latest = chunk;
      clearTimeout(handover.timer);
      handover.timer = this.#timer(request);
    }
    handover.isSending = true;
    const content = await readChunk(handover.file, chunk).finally(() => {
      handover.isSending = false;
    });
    handover.sentAt = this.#monotonic();
    // The new member may request the next chunk as soon as it has this one.
    handover.channel({ kind: 'chunk', request, chunk }, content);
  }
}

async function readChunk(file: string, chunk: number): Promise<Buffer> {
  const handle = await open(file);
  try {
    const position = chunk * chunkBytes;
    const buffer = Buffer.alloc(chunkBytes);
    const { bytesRead } = await handle.read({ buffer, position });
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}
