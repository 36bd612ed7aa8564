import type { Logger } from 'pino';
import { wireBytes } from '#minion-protocol';
import { MasterError } from '../api/index.ts';
import type { RequestCounters } from '../metrics/index.ts';
import { DropConnectionError, type VerifiedRequest } from './request-checks.ts';

/** Signed return of a minion, with its accepted key in PEM format. */
export interface SignedReturn {
  readonly minionId: string;
  readonly pem: string;
  readonly packed: Uint8Array;
  readonly signature: Uint8Array;
}

export interface SignatureCheckOptions {
  /** `require_minion_sign_messages`: whether unsigned returns are rejected. */
  readonly isRequired: boolean;
  /** `drop_messages_signature_fail`: whether returns with an invalid signature are rejected. */
  readonly mustVerify: boolean;
  /** Returns the accepted key of an id in PEM format. */
  readonly acceptedKey: (id: string) => string | undefined;
  /**
   * Verifies a signature in a worker thread.
   * @throws MasterError if the check is currently not possible
   */
  readonly verify: (signed: SignedReturn) => Promise<boolean>;
  readonly counters: RequestCounters;
  readonly log: Logger;
}

/**
 * Checks the signatures that minions add to returns with `minion_sign_messages` [WIRE 9.4, 23.2].
 */
export class SignatureCheck {
  readonly #options: SignatureCheckOptions;

  constructor(options: SignatureCheckOptions) {
    this.#options = options;
  }

  /**
   * Whether a return is accepted. The result for an unsigned return is synchronous.
   * @throws DropConnectionError
   */
  permits(request: VerifiedRequest): boolean | Promise<boolean> {
    const { isRequired, counters, log } = this.#options;
    const { minionId, load } = request;
    const signature = wireBytes(load.sig);
    if (signature !== undefined) return this.#permitsSigned(request, signature);
    if (!isRequired) return true;
    counters.count('return-unsigned');
    log.debug({ minion: minionId }, 'return rejected: it has no signature');
    return false;
  }

  async #permitsSigned(
    { minionId = '', packed }: VerifiedRequest,
    signature: Uint8Array,
  ): Promise<boolean> {
    const { acceptedKey, mustVerify, counters, log } = this.#options;
    const pem = acceptedKey(minionId);
    if (pem !== undefined && (await this.#verify({ minionId, pem, packed, signature })))
      return true;
    counters.count('return-signature');
    log.debug({ minion: minionId, refused: mustVerify }, 'signature of a return is invalid');
    return !mustVerify;
  }

  /**
   * Verifies a signature. If that is currently impossible, the minion receives no reply and
   * therefore sends the return again.
   * @throws DropConnectionError
   */
  async #verify(signed: SignedReturn): Promise<boolean> {
    try {
      return await this.#options.verify(signed);
    } catch (cause) {
      if (cause instanceof MasterError)
        throw new DropConnectionError('return-not-verified', { cause });
      throw cause;
    }
  }
}
