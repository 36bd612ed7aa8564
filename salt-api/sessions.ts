/** Log-ins of the HTTP API: a random token each, of which only the digest is kept [THREATS A-03]. */

import { createHash, randomBytes } from 'node:crypto';
import { createBoundedMap } from '#runtime';

/** Somebody's log-in. */
export interface Session {
  /** Salt's token behind it, for the master. */
  readonly token: string;
}

/** Sessions that have not ended. */
export interface Sessions {
  /**
   * @param token Salt's token behind it
   * @returns the session's own, told this once
   * @throws StoreError where it is to be kept, and cannot be
   */
  open(token: string): Promise<string>;
  /** The session of a token; anything may be asked about. */
  find(secret: string): Session | undefined;
  /** The same of one that is not known yet, perhaps: waits for it a moment where it may come. */
  expect(secret: string): Promise<Session | undefined>;
  /** Ends one at once and for good. @throws StoreError where others may know it still */
  close(secret: string): Promise<void>;
  /** How many there are, with those that nobody has looked for since they ended. */
  readonly size: number;
  /** Nobody asks any more. */
  stop(): Promise<void>;
}

/** Sessions at a time; the one that was not used for the longest time goes first. */
export const maxSessions = 50_000;

/** @returns what whoever opens a session is told, once */
export function createSessionToken(): string {
  return randomBytes(32).toString('hex');
}

const tokenForm = /^[0-9a-f]{64}$/;

/** Whether a text can be the token of a session. */
export function hasTokenForm(text: string): boolean {
  return tokenForm.test(text);
}

/** What is kept of a session's token. */
export function digestOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}

/** Looks for the session of a token, by its digest; anything may be asked about. */
export function lookUp<Held>(
  sessions: { get(hash: string): Held | undefined },
  secret: string,
): readonly [hash: string, held: Held] | undefined {
  if (!hasTokenForm(secret)) return undefined;
  const hash = digestOf(secret);
  const held = sessions.get(hash);
  return held === undefined ? undefined : [hash, held];
}

interface StoredSession {
  readonly session: Session;
  usedAt: number;
}

export interface MemorySessionsOptions {
  /** Milliseconds without use after which a session ends. */
  readonly idleMs: number;
  /** Milliseconds of a clock that only goes forward. */
  readonly now: () => number;
}

/** The sessions of one server. They end with it: whoever uses one logs in again. */
export class MemorySessions implements Sessions {
  readonly #options: MemorySessionsOptions;
  readonly #held = createBoundedMap<string, StoredSession>(maxSessions);

  constructor(options: MemorySessionsOptions) {
    this.#options = options;
  }

  async open(token: string): Promise<string> {
    const secret = createSessionToken();
    const usedAt = this.#options.now();
    this.#held.set(digestOf(secret), { session: { token }, usedAt });
    return secret;
  }

  find(secret: string): Session | undefined {
    const known = lookUp(this.#held, secret);
    if (known === undefined) return undefined;
    const [hash, held] = known;
    this.#held.delete(hash);
    const now = this.#options.now();
    if (now - held.usedAt >= this.#options.idleMs) return undefined;
    this.#held.set(hash, { ...held, usedAt: now });
    return held.session;
  }

  async expect(secret: string): Promise<Session | undefined> {
    return this.find(secret);
  }

  get size(): number {
    return this.#held.size;
  }

  async close(secret: string): Promise<void> {
    this.#held.delete(digestOf(secret));
  }

  async stop(): Promise<void> {}
}
