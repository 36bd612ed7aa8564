/**
 * The answers to `_auth` [WIRE 6.3, 6.6; salt/channel/server.py ReqServerChannel._auth]. All of it
 * is RSA, so it imports no schemas and loads quickly in a worker thread.
 */
import { createHash, type KeyObject } from 'node:crypto';
import { generateKeyString } from './crypt.ts';
import { ProtocolError } from './errors.ts';
import { packWire, type WireMap } from './payload.ts';
import { isNonce, type ProtocolVersion } from './request.ts';
import {
  type EncryptionAlgorithm,
  rsaDecrypt,
  rsaEncrypt,
  rsaSign,
  type SigningAlgorithm,
} from './rsa.ts';
import { cleanKeyText, parsePublicKey } from './rsa-keys.ts';
import { x931Sign } from './x931.ts';

/** What the answer to a sign-in depends on. */
export interface AuthReplyContext {
  readonly version: ProtocolVersion;
  /** Always there from version 2 on, and never anything but 32 hex digits [THREATS N-10]. */
  readonly nonce: string | undefined;
  readonly sigAlgo: SigningAlgorithm;
}

/** A sign-in request whose form is right. */
export interface AuthRequest extends AuthReplyContext {
  readonly id: string;
  /** The offered public key, as sent: not yet judged, see {@link parsePublicKey}. */
  readonly pub: string;
  readonly encAlgo: EncryptionAlgorithm;
  /** Encrypted to the master key that the minion knows. */
  readonly token: Uint8Array | undefined;
  readonly autosignGrains: WireMap | undefined;
}

/** The packed answer to an unknown algorithm: never signed, whatever the version. */
export function badAlgorithmReply(which: 'enc' | 'sig'): Buffer {
  return packWire({ enc: 'clear', load: { ret: `bad ${which} algo` } });
}

/**
 * The packed answer `ret`: `true` for pending, `false` ends the minion's process, `full` for
 * `max_minions`. Slow from version 2 on, where it is signed.
 * @throws TypeError when a needed `masterKey` or nonce is missing
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
  if (masterKey === undefined) throw new TypeError('versions 2 and 3 need the master key');
  if (!isNonce(context.nonce)) throw new TypeError('versions 2 and 3 need a nonce');
  const load = packWire({ ...map, nonce: context.nonce });
  return packWire({ enc: 'clear', load, sig: rsaSign(masterKey, load, context.sigAlgo) });
}

/** What an accepted minion is given. */
export interface AuthMaterial {
  readonly masterPrivate: KeyObject;
  /** Sent clean: minions compare it to the letter. */
  readonly masterPublicPem: string;
  /** The real port as minions see it. */
  readonly publishPort: number;
  /** Key string shared by all minions. */
  readonly aes: string;
  /** Key string of this minion; sent in every version, needed in version 3. */
  readonly session: string;
  /** Of {@link aesKeySignature}; the same for all minions, so it is made once for an AES key. */
  readonly x931Sig: Uint8Array;
  /** Of {@link masterPubkeySignature}, with `master_sign_pubkey`. */
  readonly pubSig?: string;
}

/**
 * The packed answer to an accepted minion. Slow: up to five RSA operations, to be run whole in a
 * worker thread. For a token that does not decrypt a random one is sent, which the minion refuses
 * like a missing one: whether it decrypts is nobody's business [THREATS N-16].
 * @param minionKey - the offered key, imported; reading it costs as much as another RSA operation
 * @throws ProtocolError ERR_BAD_KEY when the offered key is unusable: refuse with `false`
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

/** `sig` of accepted replies: proves to a minion that the AES key comes from the master. Slow. */
export function aesKeySignature(masterPrivate: KeyObject, aes: string): Buffer {
  return x931Sign(masterPrivate, aesKeyDigest(aes));
}

/** What {@link aesKeySignature} signs: the hex form of the key string's SHA-256. */
export function aesKeyDigest(aes: string): Buffer {
  return Buffer.from(createHash('sha256').update(aes).digest('hex'), 'latin1');
}

/**
 * `pub_sig`: vouches for a master key with a second key pair (`master_sign_pubkey`). Over the text
 * as it is sent. Slow.
 */
export function masterPubkeySignature(
  signPrivate: KeyObject,
  masterPublicPem: string,
  algorithm: SigningAlgorithm,
): string {
  const text = Buffer.from(cleanKeyText(masterPublicPem), 'utf8');
  return `${rsaSign(signPrivate, text, algorithm).toString('base64')}\n`;
}
