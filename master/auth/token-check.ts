/** Checks the session tokens of requests. */

import { hash, timingSafeEqual } from 'node:crypto';
import { createBoundedMap } from '#runtime';

const maxTokens = 50_000;
/** For one of them as bytes: a token is as long as its key, which has at most 8,192 bits. */
const tokenRoom = Buffer.allocUnsafeSlow(1024);

/**
 * Whether a token is the minion's own [WIRE 3.3]. It never changes for a key, so one that was
 * right is remembered, and the RSA operation is done once a key.
 */
export class TokenCheck {
  readonly #verify: (pem: string, token: Uint8Array) => Promise<boolean>;
  /** Tokens as text of a character a byte: as bytes they would take three times the room. */
  readonly #verified = createBoundedMap<string, string>(maxTokens);
  /** By key and token: many requests of a minion may arrive before its first was checked. */
  readonly #underWay = new Map<string, Promise<boolean>>();

  /** @param verify the RSA check, off the main thread */
  constructor(verify: (pem: string, token: Uint8Array) => Promise<boolean>) {
    this.#verify = verify;
  }

  /** Whether it is the token that was right before; costs no RSA. */
  isRemembered(pem: string, token: Uint8Array): boolean {
    const known = this.#verified.get(pem);
    if (known?.length !== token.length) return false;
    tokenRoom.write(known, 'latin1');
    return timingSafeEqual(tokenRoom.subarray(0, known.length), token);
  }

  /** @param pem text of the minion's accepted key */
  async isGenuine(pem: string, token: Uint8Array): Promise<boolean> {
    if (this.isRemembered(pem, token)) return true;
    if (!(await this.#verifyOnce(pem, token))) return false;
    this.#verified.set(pem, Buffer.from(token).toString('latin1'));
    return true;
  }

  #verifyOnce(pem: string, token: Uint8Array): Promise<boolean> {
    const mark = `${pem} ${hash('sha256', token, 'base64')}`;
    const same = this.#underWay.get(mark);
    if (same !== undefined) return same;
    const verifying = this.#verify(pem, token).finally(() => this.#underWay.delete(mark));
    this.#underWay.set(mark, verifying);
    return verifying;
  }
}
