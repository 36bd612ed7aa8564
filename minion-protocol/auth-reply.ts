/**
 * Builds the replies to `_auth` requests [WIRE 6.3, 6.6; salt/channel/server.py
 * ReqServerChannel._auth]. It imports the RSA functions and no schemas, so that a worker thread
 * loads it quickly.
 */
import { hash, type KeyObject } from 'node:crypto';
import { generateKeyString } from './crypt.ts';
import { ProtocolError } from './errors.ts';
import { packWire } from './payload.ts';
import { isNonce, type ProtocolVersion } from './request.ts';
import {
  type EncryptionAlgorithm,
  rsaDecrypt,
  rsaEncrypt,
  rsaSign,
  type SigningAlgorithm,
} from './rsa.ts';
import { cleanKeyText, parsePublicKey } from './rsa-keys.ts';
import type { WireMap } from './wire-value.ts';
import { x931Sign } from './x931.ts';

/** Properties of a sign-in request that determine the form of the reply. */
export interface AuthReplyContext {
  readonly version: ProtocolVersion;
  /** Nonce of 32 hex digits. Present from version 2 on [THREATS N-10]. */
  readonly nonce: string | undefined;
  readonly sigAlgo: SigningAlgorithm;
}

/** A well-formed sign-in request. */
export interface AuthRequest extends AuthReplyContext {
  readonly id: string;
  /** Public key of the minion, as sent. It is not yet checked; see {@link parsePublicKey}. */
  readonly pub: string;
  readonly encAlgo: EncryptionAlgorithm;
  /**
   * Random token of the minion, encrypted with the master key that the minion has stored.
   * `undefined` if the minion has stored no master key.
   */
  readonly token: Uint8Array | undefined;
  readonly autosignGrains: WireMap | undefined;
}

/**
 * Returns the packed reply to a sign-in request whose encryption (`enc`) or signing (`sig`)
 * algorithm is not supported. This reply is never signed.
 */
export function badAlgorithmReply(which: 'enc' | 'sig'): Buffer {
  return packWire({ enc: 'clear', load: { ret: `bad ${which} algo` } });
}

/**
 * Returns the packed reply to a minion that is not accepted. From version 2 on, the call is slow,
 * because the reply is signed.
 * @param ret - `true` for a pending key; `full` if `max_minions` is reached; `false` for a rejected
 * key, which makes the minion's process exit
 * @param masterKey - private key of the master, required from version 2 on
 * @throws TypeError if `masterKey` or the nonce is missing and the version requires them
 */
export function buildRefusal(
  context: AuthReplyContext,
  ret: boolean | 'full',
  masterKey?: KeyObject,
): Buffer {
  if (context.version < 2) return packWire({ enc: 'clear', load: { ret } });
  return signedForm({ ret }, context, masterKey);
}

function signedForm(map: WireMap, context: AuthReplyContext, masterKey?: KeyObject): Buffer {
  if (masterKey === undefined)
    throw new TypeError('protocol versions 2 and 3 need the master key to sign the reply');
  if (!isNonce(context.nonce))
    throw new TypeError('protocol versions 2 and 3 need a nonce of 32 hex digits');
  const load = packWire({ ...map, nonce: context.nonce });
  return packWire({ enc: 'clear', load, sig: rsaSign(masterKey, load, context.sigAlgo) });
}

/** Keys and signatures that the master sends to an accepted minion. */
export interface AuthMaterial {
  readonly masterPrivate: KeyObject;
  /**
   * PEM text of the master's public key, as {@link cleanKeyText} returns it, because minions
   * compare the text exactly.
   */
  readonly masterPublicPem: string;
  /** Publish port as minions see it. */
  readonly publishPort: number;
  /** Key string of the publish key, which all minions share. */
  readonly aes: string;
  /**
   * Key string of the minion's session key. The reply always contains it, but minions use it only
   * in version 3.
   */
  readonly session: string;
  /**
   * Result of {@link aesKeySignature}. It is the same for all minions, so it is computed once for
   * each AES key.
   */
  readonly x931Sig: Uint8Array;
  /** Result of {@link masterPubkeySignature}. Set if `master_sign_pubkey` is on. */
  readonly pubSig?: string;
}

/**
 * Returns the packed reply to an accepted minion. Slow: it takes up to five RSA operations, so run
 * it in a worker thread. If the minion's token cannot be decrypted, the reply contains a random
 * token, which the minion rejects. The reply therefore does not reveal whether the token could be
 * decrypted [THREATS N-16].
 * @param minionKey - the minion's public key; by default it is parsed from the request, which costs
 * as much as an RSA operation
 * @throws ProtocolError ERR_BAD_KEY if the minion's key is unusable; then reply with `false`
 */
export function buildAccepted(
  request: AuthRequest,
  material: AuthMaterial,
  minionKey: KeyObject = parsePublicKey(request.pub),
): Buffer {
  const seal = (bytes: Uint8Array) => rsaEncrypt(minionKey, bytes, request.encAlgo);
  const token = request.token && decryptedToken(request, request.token, material.masterPrivate);
  const map: WireMap = {
    enc: 'pub',
    pub_key: cleanKeyText(material.masterPublicPem),
    publish_port: material.publishPort,
    ...(material.pubSig === undefined ? {} : { pub_sig: material.pubSig }),
    ...(token === undefined ? {} : { token: seal(token) }),
    aes: seal(Buffer.from(material.aes, 'latin1')),
    session: seal(Buffer.from(material.session, 'latin1')),
    sig: material.x931Sig,
  };
  return request.version < 2 ? packWire(map) : signedForm(map, request, material.masterPrivate);
}

function decryptedToken(request: AuthRequest, token: Uint8Array, masterPrivate: KeyObject): Buffer {
  const random = Buffer.from(generateKeyString(), 'latin1');
  try {
    const plain = rsaDecrypt(masterPrivate, token, request.encAlgo);
    return plain.length === random.length ? plain : random;
  } catch (error) {
    if (error instanceof ProtocolError) return random;
    throw error;
  }
}

/**
 * Returns the `sig` field of replies to accepted minions. The field proves that the AES key comes
 * from the master. The function performs an RSA operation, which is slow.
 */
export function aesKeySignature(masterPrivate: KeyObject, aes: string): Buffer {
  return x931Sign(masterPrivate, aesKeyDigest(aes));
}

/** Returns the digest that {@link aesKeySignature} signs: the SHA-256 of the key string, in hex. */
export function aesKeyDigest(aes: string): Buffer {
  return Buffer.from(hash('sha256', aes), 'latin1');
}

/**
 * Returns the `pub_sig` field. It is a signature of the master's public key, made with a separate
 * key pair (Salt's `master_sign_pubkey`). The function signs the PEM text in the form in which the
 * master sends it. It performs an RSA operation, which is slow.
 */
export function masterPubkeySignature(
  signPrivate: KeyObject,
  masterPublicPem: string,
  algorithm: SigningAlgorithm,
): string {
  const text = Buffer.from(cleanKeyText(masterPublicPem), 'utf8');
  return `${rsaSign(signPrivate, text, algorithm).toString('base64')}\n`;
}
