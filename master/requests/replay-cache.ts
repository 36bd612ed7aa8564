import { createHash, hash } from 'node:crypto';
import { packWire } from '#minion-protocol';
import { type Reply, type SessionKeys, send, type VerifiedRequest } from '../auth/index.ts';

/** Number of marks that one block of memory holds. A mark identifies a request. */
export const marksPerBlock = 4;
/**
 * Number of 32-bit words in a mark, which identifies a request: two for eight bytes of the
 * request's digest, and one for its expiry time.
 */
const wordsPerMark = 3;
/** Block number that marks the end of a linked list of blocks. */
const noBlock = 0xffff_ffff;

const wordsPerBlock = 1 + marksPerBlock * wordsPerMark;
const pageBits = 10;
const blocksPerPage = 1 << pageBits;

/**
 * Memory for the marks of all minions, in small blocks that form one linked list for each minion. A
 * mark identifies a request. A separate array for each minion would take several times as much
 * memory as its few marks. Released blocks are reused.
 */
export class DigestPool {
  readonly #pages: Uint32Array[] = [];
  #blocks = 0;
  #free = noBlock;

  /** Number of memory blocks that currently contain marks. */
  inUse = 0;

  /**
   * Takes a free block of memory, and returns its number. The block is not linked to another block
   * yet.
   */
  take(): number {
    this.inUse += 1;
    const block = this.#free;
    if (block === noBlock) return this.#add();
    this.#free = this.next(block);
    this.link(block, noBlock);
    return block;
  }

  give(block: number): void {
    this.inUse -= 1;
    this.link(block, this.#free);
    this.#free = block;
  }

  next(block: number): number {
    return this.pageOf(block)[startOf(block)] ?? noBlock;
  }

  link(block: number, next: number): void {
    this.pageOf(block)[startOf(block)] = next;
  }

  /**
   * Returns the index of the first number of a mark (identifier of a request) in the array from
   * {@link DigestPool.pageOf}.
   * @param index - position of the mark in the block, from 0 to 3
   */
  markAt(block: number, index: number): number {
    return startOf(block) + 1 + index * wordsPerMark;
  }

  pageOf(block: number): Uint32Array {
    const page = this.#pages[block >>> pageBits];
    if (page === undefined) throw new RangeError(`no block ${block}`);
    return page;
  }

  #add(): number {
    if (this.#blocks % blocksPerPage === 0) {
      this.#pages.push(new Uint32Array(blocksPerPage * wordsPerBlock));
    }
    const block = this.#blocks;
    this.#blocks += 1;
    this.link(block, noBlock);
    return block;
  }
}

function startOf(block: number): number {
  return (block % blocksPerPage) * wordsPerBlock;
}

/** Value that stands for the expiry time of digests that never expire. */
const never = 0xffff_ffff;

/**
 * Digests of one minion's requests, in the order of arrival, with their expiry times. Expired
 * digests are removed. A large fleet has hundreds of thousands of digests. To save memory, only
 * eight bytes of each are stored. With its expiry time, a digest takes 13 bytes.
 *
 * If two requests of a minion have the same eight bytes, the master treats the second one as a
 * repetition of the first. Other minions are not affected.
 */
export class DigestQueue {
  readonly #pool: DigestPool;
  readonly #maxMarks: number;
  #firstBlock = noBlock;
  #lastBlock = noBlock;
  /** Position of the oldest digest in the first block, from 0 to 3. */
  #firstIndex = 0;
  #count = 0;
  #isReleased = false;

  /** @param maxMarks - maximum number of digests. A further digest replaces the oldest */
  constructor(pool: DigestPool, maxMarks: number) {
    this.#pool = pool;
    this.#maxMarks = maxMarks;
  }

  /** Number of digests. It includes expired digests that have not been removed yet. */
  get size(): number {
    return this.#count;
  }

  /**
   * Whether the queue contains a digest.
   * @param digest - at least eight bytes
   */
  has(digest: Buffer): boolean {
    const [high, low] = [digest.readUInt32LE(0), digest.readUInt32LE(4)];
    let index = this.#firstIndex;
    let left = this.#count;
    for (let block = this.#firstBlock; left > 0; block = this.#pool.next(block)) {
      const words = this.#pool.pageOf(block);
      for (; index < marksPerBlock && left > 0; index += 1, left -= 1) {
        const start = this.#pool.markAt(block, index);
        if (words[start] === high && words[start + 1] === low) return true;
      }
      index = 0;
    }
    return false;
  }

  /**
   * Adds a digest.
   * @param expiresAt - expiry time in seconds since 1970, or infinity
   */
  add(digest: Buffer, expiresAt: number): void {
    if (this.#isReleased) return;
    if (this.#count === this.#maxMarks) this.#removeFirst();
    const index = (this.#firstIndex + this.#count) % marksPerBlock;
    if (index === 0) this.#addBlock();
    const words = this.#pool.pageOf(this.#lastBlock);
    const start = this.#pool.markAt(this.#lastBlock, index);
    words[start] = digest.readUInt32LE(0);
    words[start + 1] = digest.readUInt32LE(4);
    words[start + 2] = Math.min(Math.ceil(expiresAt), never);
    this.#count += 1;
  }

  /**
   * Removes expired digests, beginning with the oldest.
   * @param now - seconds since 1970
   */
  removeExpired(now: number): void {
    while (this.#count > 0 && this.#firstExpiry() < now) this.#removeFirst();
  }

  /**
   * Removes all digests from this queue, which frees their memory. Digests that are added later are
   * ignored.
   */
  release(): void {
    while (this.#count > 0) this.#removeFirst();
    this.#isReleased = true;
  }

  #firstExpiry(): number {
    const start = this.#pool.markAt(this.#firstBlock, this.#firstIndex);
    return this.#pool.pageOf(this.#firstBlock)[start + 2] ?? never;
  }

  #addBlock(): void {
    const block = this.#pool.take();
    if (this.#count === 0) this.#firstBlock = block;
    else this.#pool.link(this.#lastBlock, block);
    this.#lastBlock = block;
  }

  #removeFirst(): void {
    this.#firstIndex += 1;
    this.#count -= 1;
    const isEmpty = this.#count === 0;
    if (!isEmpty && this.#firstIndex < marksPerBlock) return;
    const block = this.#firstBlock;
    this.#firstIndex = 0;
    this.#firstBlock = isEmpty ? noBlock : this.#pool.next(block);
    this.#pool.give(block);
  }
}

/**
 * Returns the mark that identifies a request among the requests of its minion. If the request has a
 * nonce, the mark is a digest of the packed load, which contains the nonce. The digest does not
 * cover `ts`, because a client may repeat a request with a new time stamp [WIRE 4.4]. If the
 * request has no nonce, two different requests may have the same content, and a digest could not
 * distinguish them. The mark is then the message authentication code, so only requests with
 * identical bytes have the same mark.
 */
function markOf({ nonce, ts, packed, mac }: VerifiedRequest): Buffer {
  if (nonce === undefined) return mac;
  const load = Buffer.from(packed.buffer, packed.byteOffset, packed.length);
  const field = ts === undefined ? noBytes : packedTime(ts);
  // Salt adds the time stamp near the end of the load.
  const at = load.lastIndexOf(field);
  const parts = at === -1 ? [load] : [load.subarray(0, at), load.subarray(at + field.length)];
  return load.length > shortBuffer.length ? digestOfLong(parts) : digestOfShort(parts);
}

const noBytes = Buffer.alloc(0);
/**
 * Memory in which a short load is copied without its time stamp. A digest of one buffer takes less
 * time than an object for a digest of parts.
 */
const shortBuffer = Buffer.allocUnsafeSlow(4096);

function digestOfShort(parts: readonly Buffer[]): Buffer {
  let end = 0;
  for (const part of parts) {
    shortBuffer.set(part, end);
    end += part.length;
  }
  return Buffer.from(hash('sha256', shortBuffer.subarray(0, end), 'binary'), 'latin1');
}

function digestOfLong(parts: readonly Buffer[]): Buffer {
  const digest = createHash('sha256');
  for (const part of parts) digest.update(part);
  return digest.digest();
}

/** Time stamp of the latest request, and its field. Most requests of a second have the same. */
let latest = { ts: Number.NaN, field: noBytes };

/** Returns the field `ts` of a load in MessagePack. */
function packedTime(ts: number): Buffer {
  if (latest.ts !== ts) {
    latest = { ts, field: Buffer.concat([packWire('ts'), packWire(ts)]) };
  }
  return latest.field;
}

/**
 * Returns a text that identifies a request among the requests of its minion. It is stored with the
 * effect of the request.
 */
export function requestDigest(request: VerifiedRequest): string {
  return markOf(request).toString('base64');
}

/**
 * Maximum number of marks of a minion, each for one request. It is larger than the number of events
 * that a minion can send while their time stamps are valid (300 s).
 */
const maxPerMinion = 8_192;

/** Reply to nearly all requests. The cache stores only replies that differ from this one. */
const usualReply: Reply = send(null);

interface OddReply {
  readonly reply: Reply;
  /** Expiry time in seconds since 1970, or infinity. */
  readonly expiresAt: number;
}

/**
 * Requests of one minion that the master has answered or is processing. Each request has an
 * identifier, its mark.
 */
interface Marks {
  readonly done: DigestQueue;
  /**
   * Replies other than `null`, the usual reply, by the mark of the request. The map is created when
   * it is needed.
   */
  odd: Map<string, OddReply> | undefined;
  /** Requests in progress, by their marks. The map is created when it is needed. */
  underWay: Map<string, Promise<Reply>> | undefined;
}

/** Options of the replay cache. */
export interface ReplayCacheOptions {
  /** `request_server_ttl` in seconds. 0 disables the check of a request's age. */
  readonly ttlSeconds: number;
  readonly now: () => number;
  /** Reports an answered request to the other members of a cluster. Default: no reports. */
  readonly report?: ((mark: ReportedMark) => void) | undefined;
}

/**
 * Identifier (mark) of a request that one cluster member has answered. The member sends it to the
 * other members.
 */
export interface ReportedMark {
  readonly minion: string;
  readonly mark: Uint8Array;
  /** Expiry time in seconds since 1970. 0 if it never expires. */
  readonly expiresAt: number;
}

/**
 * Remembers requests that have an effect, and the replies to them. Salt's clients repeat a packed
 * request if its reply was lost. The repetition has no second effect and gets the same reply
 * [THREATS C-43]. Each request is identified by a mark. The marks of each minion are limited
 * separately, so that no minion can evict the marks of another. A mark expires when the time stamp
 * of its request becomes invalid. Marks of requests without a time stamp do not expire. A failed
 * request gets no mark, so that the minion can repeat it.
 */
export class ReplayCache {
  readonly #options: ReplayCacheOptions;
  readonly #pool = new DigestPool();
  readonly #marks = new Map<string, Marks>();

  constructor(options: ReplayCacheOptions) {
    this.#options = options;
  }

  /**
   * Runs a request. If the request has been run before, returns the reply of the first run instead.
   */
  once(request: VerifiedRequest, run: () => Reply | Promise<Reply>): Reply | Promise<Reply> {
    if (request.minionId === undefined) return run();
    const marks = this.#marksOf(request.minionId);
    const mark = markOf(request);
    const first = firstAnswer(marks, mark);
    if (first !== undefined) return first;
    const expiresAt = this.#expiry(request);
    const reply = run();
    if (reply instanceof Promise) {
      const told = this.#follow(marks, mark, expiresAt, reply);
      if (this.#options.report !== undefined)
        this.#reportAfter(request.minionId, mark, expiresAt, told);
      return told;
    }
    this.#keep(marks, mark, expiresAt, reply);
    this.#report(request.minionId, mark, expiresAt);
    return reply;
  }

  /**
   * Records a request after another cluster member has answered it, so that a repetition has no
   * effect at this member.
   */
  note({ minion, mark, expiresAt }: ReportedMark): void {
    const { done } = this.#marksOf(minion);
    done.removeExpired(this.#options.now() / 1000);
    done.add(Buffer.from(mark), expiresAt === 0 ? Number.POSITIVE_INFINITY : expiresAt);
  }

  /**
   * Deletes the identifiers (marks) of all requests of a minion after its keys have become invalid.
   * These requests cannot be repeated, because the master can no longer decrypt them.
   */
  forget(minionId: string): void {
    this.#marks.get(minionId)?.done.release();
    this.#marks.delete(minionId);
  }

  #report(minion: string, mark: Uint8Array, expiresAt: number): void {
    this.#options.report?.({ minion, mark, expiresAt: Number.isFinite(expiresAt) ? expiresAt : 0 });
  }

  /**
   * Reports a request to the other members after it has succeeded. A failed request may be repeated
   * at any member.
   */
  #reportAfter(
    minion: string,
    mark: Uint8Array,
    expiresAt: number,
    answered: Promise<Reply>,
  ): void {
    answered.then(
      () => this.#report(minion, mark, expiresAt),
      () => {},
    );
  }

  async #follow(
    marks: Marks,
    mark: Buffer,
    expiresAt: number,
    reply: Promise<Reply>,
  ): Promise<Reply> {
    const name = nameOf(mark);
    marks.underWay ??= new Map();
    marks.underWay.set(name, reply);
    try {
      this.#keep(marks, mark, expiresAt, await reply);
    } finally {
      marks.underWay.delete(name);
    }
    return reply;
  }

  #keep(marks: Marks, mark: Buffer, expiresAt: number, reply: Reply): void {
    const now = this.#options.now() / 1000;
    marks.done.removeExpired(now);
    if (reply.kind === 'send' && reply.value === null) {
      marks.done.add(mark, expiresAt);
      return;
    }
    marks.odd ??= new Map();
    marks.odd.set(nameOf(mark), { reply, expiresAt });
    for (const [oldest, kept] of marks.odd) {
      if (marks.odd.size <= maxPerMinion && kept.expiresAt >= now) return;
      marks.odd.delete(oldest);
    }
  }

  /**
   * Returns the expiry of the request's time stamp, in seconds since 1970. Infinity if the request
   * has no time stamp.
   */
  #expiry({ ts }: VerifiedRequest): number {
    const { ttlSeconds } = this.#options;
    return ts === undefined || ttlSeconds === 0 ? Number.POSITIVE_INFINITY : ts + ttlSeconds;
  }

  #marksOf(minionId: string): Marks {
    const known = this.#marks.get(minionId);
    if (known !== undefined) return known;
    const done = new DigestQueue(this.#pool, maxPerMinion);
    const fresh: Marks = { done, odd: undefined, underWay: undefined };
    this.#marks.set(minionId, fresh);
    return fresh;
  }
}

function firstAnswer(
  { done, odd, underWay }: Marks,
  mark: Buffer,
): Reply | Promise<Reply> | undefined {
  if (done.has(mark)) return usualReply;
  if (odd === undefined && underWay === undefined) return undefined;
  const name = nameOf(mark);
  return underWay?.get(name) ?? odd?.get(name)?.reply;
}

function nameOf(mark: Buffer): string {
  return mark.toString('latin1');
}

/**
 * Returns a function that checks whether a request may be a replay. When the master restarts, it no
 * longer knows which requests it has answered. So a request with a time stamp before the start may
 * be a replay. If the session key of its minion was created after the start, the request is not a
 * replay. An attacker cannot have recorded it before the start, because the key did not exist then.
 */
export function replayCheck(
  sessions: SessionKeys,
  startedAt: number,
): (request: VerifiedRequest) => boolean {
  const startSecond = Math.floor(startedAt / 1000);
  return ({ minionId, ts }) => {
    if (minionId === undefined || ts === undefined || ts >= startSecond) return false;
    const madeAt = sessions.madeAt(minionId);
    return madeAt !== undefined && madeAt < startedAt;
  };
}
