/**
 * The RSA operations of a master, each one message to a worker thread. What they do is
 * `minion-protocol`'s; here is only the list of what may be asked.
 */
import type { KeyObject } from 'node:crypto';
import {
  type AuthMaterial,
  type AuthReplyContext,
  type AuthRequest,
  aesKeySignature,
  buildAccepted,
  buildRefusal,
  encodePrivateReply,
  isMinionToken,
  masterPubkeySignature,
  type PrivateReply,
  ProtocolError,
  parsePublicKey,
  type SigningAlgorithm,
  sign,
} from '../../minion-protocol/signing.ts';

/** One piece of work. Key objects are shared with the worker, not copied. */
export type RsaTask =
  | { readonly kind: 'accept'; readonly request: AuthRequest; readonly material: AuthMaterial }
  | {
      readonly kind: 'refuse';
      readonly context: AuthReplyContext;
      readonly ret: boolean | 'full';
      readonly masterKey: KeyObject;
    }
  | { readonly kind: 'private'; readonly reply: PrivateReply }
  | { readonly kind: 'check-key'; readonly pem: string }
  | { readonly kind: 'check-token'; readonly key: KeyObject; readonly token: Uint8Array }
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

/** What a task gives: bytes for all that sign or encrypt, yes or no for the checks. */
export type RsaResult<T extends RsaTask> = T extends { kind: 'check-key' | 'check-token' }
  ? boolean
  : T extends { kind: 'sign-master-pub' }
    ? string
    : Uint8Array;

/** Carries out one task. */
export function performRsa(task: RsaTask): Uint8Array | boolean | string {
  switch (task.kind) {
    case 'accept':
      return buildAccepted(task.request, task.material);
    case 'refuse':
      return buildRefusal(task.context, task.ret, task.masterKey);
    case 'private':
      return encodePrivateReply(task.reply);
    case 'check-key':
      return isUsableKey(task.pem);
    case 'check-token':
      return isMinionToken(task.key, task.token);
    case 'sign-key-string':
      return aesKeySignature(task.masterKey, task.keyString);
    case 'sign-master-pub':
      return masterPubkeySignature(task.signKey, task.publicPem, task.algorithm);
    case 'sign':
      return sign(task.masterKey, task.bytes, task.algorithm);
  }
}

function isUsableKey(pem: string): boolean {
  try {
    parsePublicKey(pem);
    return true;
  } catch (error) {
    if (error instanceof ProtocolError) return false;
    throw error;
  }
}
