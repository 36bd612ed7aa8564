/**
 * Worker thread of the RSA pool: receives tasks and returns their results. It imports only the RSA
 * part of `minion-protocol/`, because the first sign-in must wait until all imports are loaded.
 */

import type { KeyObject } from 'node:crypto';
import { parentPort } from 'node:worker_threads';
import {
  type AuthMaterial,
  type AuthReplyContext,
  type AuthRequest,
  aesKeySignature,
  buildAccepted,
  buildRefusal,
  encodePrivateReply,
  isMinionToken,
  isSignedLoad,
  masterPubkeySignature,
  type PrivateReply,
  ProtocolError,
  parsePublicKey,
  rsaSign,
  type SigningAlgorithm,
} from '#minion-protocol/signing.ts';
import { createBoundedMap } from '#runtime/bounded-map.ts';
import { rsaLimits } from './rsa-limits.ts';

/** Task for a worker thread. Key objects are shared with the thread, not copied. */
export type RsaTask =
  | { readonly kind: 'accept'; readonly request: AuthRequest; readonly material: AuthMaterial }
  | {
      readonly kind: 'refuse';
      readonly context: AuthReplyContext;
      readonly ret: boolean | 'full';
      readonly masterKey: KeyObject;
    }
  | {
      readonly kind: 'private';
      readonly minionPem: string;
      readonly reply: Omit<PrivateReply, 'minionKey'>;
    }
  | { readonly kind: 'check-key'; readonly pem: string }
  | { readonly kind: 'check-token'; readonly pem: string; readonly token: Uint8Array }
  | {
      readonly kind: 'check-load';
      readonly pem: string;
      readonly packed: Uint8Array;
      readonly signature: Uint8Array;
    }
  | { readonly kind: 'sign-key-string'; readonly masterKey: KeyObject; readonly keyString: string }
  | {
      readonly kind: 'sign-master-pub';
      readonly signKey: KeyObject;
      readonly publicPem: string;
      readonly algorithm: SigningAlgorithm;
    }
  | {
      readonly kind: 'sign';
      readonly masterKey: KeyObject;
      readonly bytes: Uint8Array;
      readonly algorithm: SigningAlgorithm;
    };

/**
 * Result of a task: a boolean for checks, a text for `sign-master-pub`, and bytes for all other
 * tasks.
 */
export type RsaResult<T extends RsaTask> = T extends {
  kind: 'check-key' | 'check-token' | 'check-load';
}
  ? boolean
  : T extends { kind: 'sign-master-pub' }
    ? string
    : Uint8Array;

/** Message to a worker thread: a task with its number. */
export interface RsaOrder {
  readonly id: number;
  readonly task: RsaTask;
}

/** Message from a worker thread: the result of the task with this number. */
export interface RsaAnswer {
  readonly id: number;
  readonly result?: unknown;
  /** Error that the task threw, as cloned for the main thread. */
  readonly error?: unknown;
}

/** Performs tasks one after the other. It caches the imported keys of minions. */
class RsaWork {
  readonly #minionKeys = new MinionKeyCache();

  /**
   * Performs a task.
   * @throws ProtocolError if a key or a ciphertext in the task is invalid
   */
  perform(task: RsaTask): Uint8Array | boolean | string {
    switch (task.kind) {
      case 'accept': {
        const { request, material } = task;
        return buildAccepted(request, material, this.#minionKeys.get(request.pub));
      }
      case 'refuse':
        return buildRefusal(task.context, task.ret, task.masterKey);
      case 'private':
        return encodePrivateReply({ ...task.reply, minionKey: this.#import(task.minionPem) });
      case 'check-key':
        return this.#minionKeys.get(task.pem) !== undefined;
      case 'check-token':
        return isMinionToken(this.#import(task.pem), task.token);
      case 'check-load':
        return isSignedLoad(this.#import(task.pem), task.packed, task.signature);
      case 'sign-key-string':
        return aesKeySignature(task.masterKey, task.keyString);
      case 'sign-master-pub':
        return masterPubkeySignature(task.signKey, task.publicPem, task.algorithm);
      case 'sign':
        return rsaSign(task.masterKey, task.bytes, task.algorithm);
    }
  }

  /**
   * Returns the imported key.
   * @throws ProtocolError ERR_BAD_KEY
   */
  #import(pem: string): KeyObject {
    const key = this.#minionKeys.get(pem);
    if (key !== undefined) return key;
    throw new ProtocolError('ERR_BAD_KEY', 'the accepted key of a minion is not usable');
  }
}

/**
 * Cache of imported public keys of minions, by their text. Importing a key is slow because it
 * parses ASN.1, so each key in use is imported only once.
 */
class MinionKeyCache {
  readonly #keys = createBoundedMap<string, KeyObject>(rsaLimits.importedKeys);

  /** Returns the key with this text, or `undefined` if the text is not a valid RSA key. */
  get(pem: string): KeyObject | undefined {
    const known = this.#keys.get(pem);
    if (known !== undefined) return known;
    try {
      const key = parsePublicKey(pem);
      this.#keys.set(pem, key);
      return key;
    } catch (error) {
      if (error instanceof ProtocolError) return undefined;
      throw error;
    }
  }
}

/**
 * Number of results per message. It is small, so that the first result in a message does not wait
 * long for the last.
 */
const together = 4;

const work = new RsaWork();

parentPort?.on('message', (orders: readonly RsaOrder[]) => {
  for (let start = 0; start < orders.length; start += together) {
    parentPort?.postMessage(orders.slice(start, start + together).map(handleTask));
  }
});

function handleTask({ id, task }: RsaOrder): RsaAnswer {
  try {
    return { id, result: work.perform(task) };
  } catch (error) {
    return { id, error };
  }
}
