import type { KeyPairText } from '#minion-protocol';
import { LimitExceeded, WorkerPool, WorkerPoolError } from '#runtime';
import { type AuditRequester, limitOwnerOf, MasterError } from '../api/index.ts';
import { authLimits } from './limits.ts';

const minBits = 2048;

/**
 * Time limit for generating a key pair, in milliseconds. A large key takes half a minute on a slow
 * machine.
 */
const deadlineMs = 300_000;

/** Time after which an idle thread ends, in milliseconds. */
const idleMs = 10_000;

/** Generates key pairs in its own worker threads, one at a time for each requester. */
export class KeyGenerator {
  readonly #maxBits: number;
  readonly #pool: WorkerPool<number, KeyPairText>;

  /**
   * Creates the generator.
   * @param maxBits - option `key_bits`: maximum size of a key, in bits
   */
  constructor(maxBits: number) {
    this.#maxBits = maxBits;
    const script = new URL('./key-worker.ts', import.meta.url);
    this.#pool = new WorkerPool(authLimits.keyPairs, { script, threads: 2, deadlineMs, idleMs });
  }

  /**
   * Generates a key pair of a size that a caller chose.
   * @param owner - caller: see {@link keyOwner}
   * @throws MasterError ERR_ARGS for a size above `key_bits`; errors of {@link generate}
   */
  async generateFor(owner: string, bits: number): Promise<KeyPairText> {
    if (!(bits >= minBits && bits <= this.#maxBits)) {
      const option = 'saltbridge: limits: key_bits';
      const message = `\`bits\` must be from ${minBits} to ${this.#maxBits} (${option})`;
      throw new MasterError('ERR_ARGS', message);
    }
    return this.generate(owner, bits);
  }

  /**
   * Generates a key pair. The size must come from the configuration, because it is not checked.
   * @throws LimitExceeded; MasterError ERR_MASTER_STOPPED
   */
  async generate(owner: string, bits: number): Promise<KeyPairText> {
    try {
      return await this.#pool.run(bits, owner);
    } catch (error) {
      if (!(error instanceof WorkerPoolError)) throw error;
      if (error.cause instanceof LimitExceeded) throw error.cause;
      if (error.reason !== 'closed') throw error;
      throw new MasterError('ERR_MASTER_STOPPED', 'the master is closing');
    }
  }

  /** Ends the threads. */
  close(): Promise<void> {
    return this.#pool.close();
  }
}

/** Returns the name that identifies a requester in the limits on key generation. */
export function keyOwner(by: AuditRequester | undefined): string {
  return limitOwnerOf(by) ?? 'local';
}
