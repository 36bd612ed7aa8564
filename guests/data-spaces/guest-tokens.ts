/**
 * Tokens with which enrolled machines call the bridge over HTTPS. A token has the same rights as
 * the minion of the machine.
 */

import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Enrolment } from '#heat-bridge';
import { AuthenticationError, type StateArea } from '#master';
import { openSealedKey } from '../sealed-key.ts';

/** Machine that a valid guest token identifies. */
export interface Guest {
  /** Id of the machine's minion. */
  readonly minion: string;
  readonly project: string;
  /** Name of the instance in the cloud. */
  readonly instance?: string;
}

export interface GuestTokensOptions {
  readonly state: Pick<StateArea, 'get' | 'seal' | 'unseal' | 'write'>;
  readonly findEnrolment: (number: string) => Enrolment | undefined;
}

const keyRow = ['guests', 'token-key'];
const tokenForm = /^sbg1\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})$/;

/**
 * Creates and verifies guest tokens. A token is a MAC (message authentication code) over the number
 * of an enrolment and the fingerprint of its key. Tokens are not stored. A token is valid as long
 * as its enrolment is valid.
 */
export class GuestTokens {
  readonly #key: Uint8Array;
  readonly #findEnrolment: GuestTokensOptions['findEnrolment'];

  private constructor(key: Uint8Array, findEnrolment: GuestTokensOptions['findEnrolment']) {
    this.#key = key;
    this.#findEnrolment = findEnrolment;
  }

  static async open({ state, findEnrolment }: GuestTokensOptions): Promise<GuestTokens> {
    return new GuestTokens(await openSealedKey(state, keyRow), findEnrolment);
  }

  /** Returns the token of an enrolment, or `undefined` if its key is not known yet. */
  of({ number, fingerprint }: Enrolment): string | undefined {
    if (fingerprint === undefined) return undefined;
    return `sbg1.${number}.${this.#mac(number, fingerprint).toString('base64url')}`;
  }

  /**
   * Returns the guest that received a token.
   * @throws AuthenticationError ERR_EAUTH_TOKEN
   */
  identify(token: string): Guest {
    const [, number = '', mac = ''] = tokenForm.exec(token) ?? [];
    const enrolment = number === '' ? undefined : this.#findEnrolment(number);
    const hasKey = enrolment?.state === 'accepted' || enrolment?.state === 'signed-in';
    if (!hasKey || enrolment.fingerprint === undefined) throw refusedToken();
    const expected = this.#mac(number, enrolment.fingerprint);
    if (!timingSafeEqual(expected, Buffer.from(mac, 'base64url'))) throw refusedToken();
    const { id: minion, project, instance } = enrolment;
    return { minion, project, ...(instance === undefined ? {} : { instance }) };
  }

  #mac(number: string, fingerprint: string): Buffer {
    return createHmac('sha256', this.#key).update(`${number} ${fingerprint}`).digest();
  }
}

function refusedToken(): AuthenticationError {
  return new AuthenticationError(
    'ERR_EAUTH_TOKEN',
    'token rejected: it was not issued to an enrolled machine',
  );
}
