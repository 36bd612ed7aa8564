import { hash } from 'node:crypto';
import { packWire } from '#minion-protocol';
import { type Reply, type SessionKeys, send, type VerifiedRequest } from '../auth/index.ts';

/** Marks that lie together in one block. */
export const marksPerBlock = 4;
/** 32-bit words of a mark: eight bytes of its digest, and when it expires. */
const wordsPerMark = 3;
/** What stands where a block is the last. */
const noBlock = 0xffff_ffff;

const wordsPerBlock = 1 + marksPerBlock * wordsPerMark;
const pageBits = 10;
const blocksPerPage = 1 << pageBits;

/**
 * Memory for the marks of all minions, in small blocks of which each names the next one of its
 * list. An array of its own for each minion takes several times what a few marks do. What was
 * given back is used again.
 */
export class DigestPool {
  readonly #pages: Uint32Array[] = [];
  #blocks = 0;
  #free = noBlock;

  /** Blocks that are in use. */
  inUse = 0;

  /** A block with nothing behind it. */
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

  /** Where the words of a mark begin in {@link DigestPool.pageOf} its block. */
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

/** Seconds since 1970 that never come. */
const never = 0xffff_ffff;

/**
 * Digests of one minion's requests in the order in which they came, each until it expires. Thirteen
 * bytes apiece: a fleet that fires thousands of events a second has hundreds of thousands of them.
 *
 * Eight bytes of a digest are enough: the queue is one minion's own, so who makes two requests of
 * the same digest only loses one.
 */
export class DigestQueue {
  readonly #pool: DigestPool;
  readonly #maxMarks: number;
  #firstBlock = noBlock;
  #lastBlock = noBlock;
  /** Of the oldest mark, in the first block. */
  #firstIndex = 0;
  #count = 0;
  #isReleased = false;

  /** @param maxMarks - the oldest goes for one more */
  constructor(pool: DigestPool, maxMarks: number) {
    this.#pool = pool;
    this.#maxMarks = maxMarks;
  }

  /** How many there are, expired ones that were not removed yet included. */
  get size(): number {
    return this.#count;
  }

  /** @param digest - at least eight bytes */
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

  /** @param expiresAt - seconds since 1970, or infinity */
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

  /** Removes from the oldest on what has expired. @param now - seconds since 1970 */
  removeExpired(now: number): void {
    while (this.#count > 0 && this.#firstExpiry() < now) this.#removeFirst();
  }

  /** Gives the memory back; nothing is added any more. */
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
 * Tells a request of a minion from its others, 32 bytes: a digest of nonce and load, but `ts`,
 * because a client that repeats a request may encrypt and stamp it anew [WIRE 4.4]. Where there is
 * no nonce, two requests may say the same, and only the same bytes are the same request.
 */
function markOf({ nonce, load, mac }: VerifiedRequest): Buffer {
  if (nonce === undefined) return mac;
  const { ts: _ts, ...rest } = load;
  return hash('sha256', packWire([nonce, rest]), 'buffer');
}

/** The same as text, to be kept beside the effect of the request. */
export function requestDigest(request: VerifiedRequest): string {
  return markOf(request).toString('base64');
}

/** As many as a minion may send events in the 300 s that its time stamps are good for, and more. */
const maxPerMinion = 8_192;

/** What nearly all requests are answered; a mark of one that was answered so needs no reply with it. */
const usualReply: Reply = send(null);

interface OddReply {
  readonly reply: Reply;
  /** Seconds since 1970, or infinity. */
  readonly expiresAt: number;
}

/** What is known of one minion's requests. */
interface Marks {
  readonly done: DigestQueue;
  /** Replies other than the usual one, if there were any, by mark. */
  odd: Map<string, OddReply> | undefined;
  /** Requests that are not done yet, if there were any, by mark. */
  underWay: Map<string, Promise<Reply>> | undefined;
}

/** How long marks are needed. */
export interface ReplayCacheOptions {
  /** `request_server_ttl`, seconds; 0: the age of requests is not looked at. */
  readonly ttlSeconds: number;
  readonly now: () => number;
  /** Tells the other members of a cluster of a request that was answered. Default: there are none. */
  readonly tell?: ((mark: ToldMark) => void) | undefined;
}

/** A mark of a request that another member of a cluster has answered. */
export interface ToldMark {
  readonly minion: string;
  readonly mark: Uint8Array;
  /** Seconds since 1970; 0: for ever. */
  readonly expiresAt: number;
}

/**
 * Requests that change something, and what they were answered. Salt's clients repeat a packed
 * request whose answer was lost; the repeat has no second effect and gets the same answer
 * [THREATS C-43]. Each minion has marks of its own, so none can flush another's. A mark goes when
 * the time stamp of its request is refused anyway; requests without one keep theirs. A request that
 * failed has none: its repeat is another try.
 */
export class ReplayCache {
  readonly #options: ReplayCacheOptions;
  readonly #pool = new DigestPool();
  readonly #marks = new Map<string, Marks>();

  constructor(options: ReplayCacheOptions) {
    this.#options = options;
  }

  /** Runs the request, or gives what it was answered the first time. */
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
      if (this.#options.tell !== undefined) this.#tellOf(request.minionId, mark, expiresAt, told);
      return told;
    }
    this.#keep(marks, mark, expiresAt, reply);
    this.#tell(request.minionId, mark, expiresAt);
    return reply;
  }

  /** A request that another member has answered has no effect here. */
  note({ minion, mark, expiresAt }: ToldMark): void {
    const { done } = this.#marksOf(minion);
    done.removeExpired(this.#options.now() / 1000);
    done.add(Buffer.from(mark), expiresAt === 0 ? Number.POSITIVE_INFINITY : expiresAt);
  }

  /** Forgets a minion's marks; its keys are no longer good, so nothing of it can be repeated. */
  forget(minionId: string): void {
    this.#marks.get(minionId)?.done.release();
    this.#marks.delete(minionId);
  }

  #tell(minion: string, mark: Uint8Array, expiresAt: number): void {
    this.#options.tell?.({ minion, mark, expiresAt: Number.isFinite(expiresAt) ? expiresAt : 0 });
  }

  /** A request that failed may be made again, at any member. */
  #tellOf(minion: string, mark: Uint8Array, expiresAt: number, answered: Promise<Reply>): void {
    answered.then(
      () => this.#tell(minion, mark, expiresAt),
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

  /** After that the time stamp itself is refused. */
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
 * What was seen before a restart is not remembered, so an event stamped before it is taken for a
 * replay, unless the session key was made after it: then nobody can have recorded it before.
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
