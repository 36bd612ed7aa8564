import { hash, timingSafeEqual } from 'node:crypto';
import { addressOwner, createBoundedMap } from '#runtime';
import { authLimits } from './limits.ts';

/**
 * Buffer for the bytes of one token. A token has the size of the minion's RSA key, at most 8,192
 * bits.
 */
const tokenRoom = Buffer.allocUnsafeSlow(1024);

/**
 * Checks that a token was created with the minion's key [WIRE 3.3]. A key always produces the same
 * token. Valid tokens are cached, so that the RSA operation runs only once per key.
 */
export class TokenCheck {
  readonly #verify: (pem: string, token: Uint8Array, owner: string) => Promise<boolean>;
  /** Valid tokens as Latin-1 text, because byte arrays would take three times the memory. */
  readonly #verified = createBoundedMap<string, string>(authLimits.verifiedTokens);
  /**
   * Checks in progress, by key and token. If further requests with the same token arrive before a
   * check ends, they use the result of this check.
   */
  readonly #underWay = new Map<string, Promise<boolean>>();

  /** @param verify - checks with RSA, outside the main thread, that a token was made with a key */
  constructor(verify: (pem: string, token: Uint8Array, owner: string) => Promise<boolean>) {
    this.#verify = verify;
  }

  /**
   * Whether the token equals the token that was verified last with this key. This comparison needs
   * no RSA operation.
   */
  isRemembered(pem: string, token: Uint8Array): boolean {
    const known = this.#verified.get(pem);
    if (known?.length !== token.length) return false;
    tokenRoom.write(known, 'latin1');
    return timingSafeEqual(tokenRoom.subarray(0, known.length), token);
  }

  /**
   * Whether a token is valid.
   * @param pem - accepted key of the minion
   * @param address - address of the sender, towards whose limit an RSA operation counts. The minion
   * id is not proven yet
   */
  async isGenuine(pem: string, token: Uint8Array, address: string): Promise<boolean> {
    if (this.isRemembered(pem, token)) return true;
    if (!(await this.#verifyOnce(pem, token, address))) return false;
    this.#verified.set(pem, Buffer.from(token).toString('latin1'));
    return true;
  }

  #verifyOnce(pem: string, token: Uint8Array, address: string): Promise<boolean> {
    const mark = `${pem} ${hash('sha256', token, 'base64')}`;
    const same = this.#underWay.get(mark);
    if (same !== undefined) return same;
    const verifying = this.#verify(pem, token, addressOwner(address)).finally(() =>
      this.#underWay.delete(mark),
    );
    this.#underWay.set(mark, verifying);
    return verifying;
  }
}
