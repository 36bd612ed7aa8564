/** Checks signatures of returns, which minions make with `minion_sign_messages` [WIRE 9.4, 23.2]. */

import type { Logger } from 'pino';
import { wireBytes } from '#minion-protocol';
import { MasterError } from '../api/index.ts';
import type { RequestCounters } from '../metrics/index.ts';
import { DropConnectionError, type VerifiedRequest } from './request-checks.ts';

export interface SignatureCheckOptions {
  /** `require_minion_sign_messages`: what has no signature is refused. */
  readonly isRequired: boolean;
  /** `drop_messages_signature_fail`: what has a wrong one is refused. */
  readonly mustVerify: boolean;
  /** PEM text of an id's accepted key. */
  readonly acceptedKey: (id: string) => string | undefined;
  /** The RSA check, off the main thread. @throws MasterError when it cannot be made now */
  readonly verify: (pem: string, packed: Uint8Array, signature: Uint8Array) => Promise<boolean>;
  readonly counters: RequestCounters;
  readonly log: Logger;
}

/** Decides by their signatures whether returns are taken, as Salt's options say. */
export class SignatureCheck {
  readonly #options: SignatureCheckOptions;

  constructor(options: SignatureCheckOptions) {
    this.#options = options;
  }

  /** Whether a return may be taken; nothing is waited for where it has no signature. @throws DropConnectionError */
  permits(request: VerifiedRequest): boolean | Promise<boolean> {
    const { isRequired, counters, log } = this.#options;
    const { minionId, load } = request;
    const signature = wireBytes(load.sig);
    if (signature !== undefined) return this.#permitsSigned(request, signature);
    if (!isRequired) return true;
    counters.count('return-unsigned');
    log.debug({ minion: minionId }, 'return without a signature refused');
    return false;
  }

  async #permitsSigned(
    { minionId = '', packed }: VerifiedRequest,
    signature: Uint8Array,
  ): Promise<boolean> {
    const { acceptedKey, mustVerify, counters, log } = this.#options;
    const pem = acceptedKey(minionId);
    if (pem !== undefined && (await this.#verify(pem, packed, signature))) return true;
    counters.count('return-signature');
    log.debug({ minion: minionId, refused: mustVerify }, 'signature of a return does not verify');
    return !mustVerify;
  }

  /** Without an answer the minion sends again. @throws DropConnectionError */
  async #verify(pem: string, packed: Uint8Array, signature: Uint8Array): Promise<boolean> {
    try {
      return await this.#options.verify(pem, packed, signature);
    } catch (cause) {
      if (cause instanceof MasterError)
        throw new DropConnectionError('return-not-verified', { cause });
      throw cause;
    }
  }
}
