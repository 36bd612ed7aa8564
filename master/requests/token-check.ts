import { createHash, timingSafeEqual } from 'node:crypto';

const maxRemembered = 50_000;

/**
 * Whether a token is the minion's own [WIRE 3.3]. It never changes for a key, so one that was
 * right is remembered, and the RSA operation is done once a key.
 */
export class TokenCheck {
  readonly #verify: (pem: string, token: Uint8Array) => Promise<boolean>;
  readonly #verified = new Map<string, Buffer>();
  /** By key and token: many requests of a minion may arrive before its first was checked. */
  readonly #underWay = new Map<string, Promise<boolean>>();

  /** @param verify the RSA check, off the main thread */
  constructor(verify: (pem: string, token: Uint8Array) => Promise<boolean>) {
    this.#verify = verify;
  }

  /** @param pem text of the minion's accepted key */
  async isGenuine(pem: string, token: Uint8Array): Promise<boolean> {
    const digest = createHash('sha256').update(token).digest();
    const known = this.#verified.get(pem);
    if (known !== undefined && timingSafeEqual(known, digest)) return true;
    if (!(await this.#verifyOnce(pem, digest, token))) return false;
    this.#verified.set(pem, digest);
    const [oldest] = this.#verified.keys();
    if (this.#verified.size > maxRemembered && oldest !== undefined) this.#verified.delete(oldest);
    return true;
  }

  #verifyOnce(pem: string, digest: Buffer, token: Uint8Array): Promise<boolean> {
    const mark = `${pem} ${digest.toString('base64')}`;
    const same = this.#underWay.get(mark);
    if (same !== undefined) return same;
    const verifying = this.#verify(pem, token).finally(() => this.#underWay.delete(mark));
    this.#underWay.set(mark, verifying);
    return verifying;
  }
}
