/** Log-ins of the HTTP API: a random token each, of which only the digest is kept [THREATS A-03]. */
import { createHash, randomBytes } from 'node:crypto';

/** Somebody's log-in. */
export interface Session {
  /** Salt's token behind it, for the master. */
  readonly token: string;
}

interface Held {
  readonly session: Session;
  usedAt: number;
}

/** What {@link Sessions} needs. */
export interface SessionsOptions {
  /** Milliseconds without use after which a session ends. */
  readonly idleMs: number;
  /** Milliseconds of a clock that only goes forward. */
  readonly now: () => number;
}

const form = /^[0-9a-f]{64}$/;

/** Sessions at a time; the one that was not used for the longest time goes first. */
const capacity = 50_000;

/** The sessions of one server. They end with it: whoever uses one logs in again. */
export class Sessions {
  readonly #options: SessionsOptions;
  /** The one that was used last is last. */
  readonly #held = new Map<string, Held>();

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  /** @param token Salt's token behind it @returns the session's own, told this once */
  open(token: string): string {
    const secret = randomBytes(32).toString('hex');
    const usedAt = this.#options.now();
    this.#held.set(digest(secret), { session: { token }, usedAt });
    if (this.#held.size > capacity) this.#forgetOldest();
    return secret;
  }

  /** The session of a token; anything may be asked about. */
  find(secret: string): Session | undefined {
    if (!form.test(secret)) return undefined;
    const hash = digest(secret);
    // protection: any-session
    const held = this.#held.get(hash);
    if (held === undefined) return undefined;
    this.#held.delete(hash);
    const now = this.#options.now();
    if (now - held.usedAt >= this.#options.idleMs) return undefined;
    this.#held.set(hash, { ...held, usedAt: now });
    return held.session;
  }

  /** How many there are, with those that nobody has looked for since they ended. */
  get size(): number {
    return this.#held.size;
  }

  /** Ends one at once and for good. */
  close(secret: string): void {
    this.#held.delete(digest(secret));
  }

  #forgetOldest(): void {
    const [oldest] = this.#held.keys();
    if (oldest !== undefined) this.#held.delete(oldest);
  }
}

function digest(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}
