/**
 * `_auth`, the master's side [WIRE 6; salt/channel/server.py ReqServerChannel._auth]. Nothing here
 * reads or writes: what to store is said by {@link judgeKey}, and the caller stores it.
 */
import { createHash, type KeyObject } from 'node:crypto';
import { generateKeyString } from './crypticle.ts';
import { type ClearEnvelope, isNonce, isValidMinionId, type ProtocolVersion } from './envelope.ts';
import { ProtocolError, type ProtocolErrorCode } from './errors.ts';
import { parseAuthLoad } from './loads.ts';
import { packWire } from './payload.ts';
import {
  decrypt,
  defaultEncryptionAlgorithm,
  defaultSigningAlgorithm,
  type EncryptionAlgorithm,
  encrypt,
  isEncryptionAlgorithm,
  isSigningAlgorithm,
  type SigningAlgorithm,
  sign,
} from './rsa.ts';
import { cleanKeyText, parsePublicKey } from './rsa-key.ts';
import type { WireMap } from './wire-value.ts';
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

/** Outcome of {@link parseAuthRequest}. */
export type ParsedAuthRequest =
  | { readonly ok: true; readonly request: AuthRequest }
  | {
      readonly ok: false;
      readonly code: ProtocolErrorCode;
      /** The packed answer. */
      readonly reply: Buffer;
    }
  | {
      readonly ok: false;
      readonly code: 'ERR_BAD_ID';
      /** To be answered by {@link buildRefusal} with `false`, which is signed from version 2 on. */
      readonly refuse: AuthReplyContext;
    };

/** Reads a sign-in request. Never throws, and does no RSA. */
export function parseAuthRequest(envelope: ClearEnvelope): ParsedAuthRequest {
  const { version } = envelope;
  const load = parseAuthLoad(envelope.load);
  if (!load.ok) return { ok: false, code: 'ERR_BAD_LOAD', reply: packWire('bad load') };
  const { id, nonce, pub, token, autosign_grains: autosignGrains } = load.value;
  if (version >= 2 && !isNonce(nonce)) {
    return { ok: false, code: 'ERR_NONCE', reply: packWire('bad load') };
  }
  const { enc_algo: encAlgo = defaultEncryptionAlgorithm } = load.value;
  const { sig_algo: sigAlgo = defaultSigningAlgorithm } = load.value;
  if (!isEncryptionAlgorithm(encAlgo)) return badAlgorithm('enc');
  if (!isSigningAlgorithm(sigAlgo)) return badAlgorithm('sig');
  const context = { version, nonce: version >= 2 ? nonce : undefined, sigAlgo };
  if (!isValidMinionId(id)) return { ok: false, code: 'ERR_BAD_ID', refuse: context };
  return { ok: true, request: { ...context, id, pub, encAlgo, token, autosignGrains } };
}

function badAlgorithm(which: 'enc' | 'sig'): ParsedAuthRequest {
  return { ok: false, code: 'ERR_ALGORITHM', reply: badAlgorithmReply(which) };
}

/** The packed answer to an unknown algorithm: never signed, whatever the version. */
export function badAlgorithmReply(which: 'enc' | 'sig'): Buffer {
  return packWire({ enc: 'clear', load: { ret: `bad ${which} algo` } });
}

/** What {@link judgeKey} looks at. Keys are PEM texts and are compared clean. */
export interface KeyJudgement {
  /** The accepted key of the id, if there is one. */
  readonly accepted?: string | undefined;
  /** The pending key of the id, if there is one. */
  readonly pending?: string | undefined;
  /** Whether the id has a rejected key. */
  readonly rejected?: boolean;
  /** The key in the request. */
  readonly offered: string;
  readonly autosign: boolean;
  readonly autoreject: boolean;
  readonly openMode: boolean;
}

/** What happens to the stored keys of the id. */
export type KeyTransition =
  | 'none'
  | 'store-accepted'
  | 'store-pending'
  | 'store-rejected'
  | 'store-denied'
  | 'pending-to-accepted'
  | 'pending-to-rejected';

/** A decision about an offered key. */
export interface KeyVerdict {
  readonly outcome: 'accept' | 'pend' | 'reject' | 'denied' | 'refuse';
  /** For {@link buildRefusal}, unless the outcome is `accept`. */
  readonly ret: boolean;
  readonly transition: KeyTransition;
  /** What `salt/auth` tells, besides `id` and `pub`. */
  readonly event: {
    readonly result: boolean;
    readonly act?: 'accept' | 'pend' | 'reject' | 'denied';
  };
}

/**
 * Decides about an offered key, exactly as Salt does [WIRE 6.2, steps 4 to 8]:
 *
 * | id has | autoreject | not autosign | autosign |
 * |---|---|---|---|
 * | rejected key | refuse | refuse | refuse |
 * | accepted key | equal: accept, else denied | the same | the same |
 * | no key | reject | pend | accept |
 * | pending key | reject | equal: pend, else denied | equal: accept, else denied |
 *
 * Open mode accepts everything.
 */
export function judgeKey(input: KeyJudgement): KeyVerdict {
  const offered = cleanKeyText(input.offered);
  if (offered === '') return refusal('refuse', 'none');
  if (input.openMode) return accept(isSame(input.accepted, offered) ? 'none' : 'store-accepted');
  if (input.rejected) return refusal('refuse', 'none');
  if (input.accepted !== undefined) {
    return isSame(input.accepted, offered) ? accept('none') : denied;
  }
  return input.pending === undefined ? judgeNew(input) : judgePending(input, input.pending);
}

function judgeNew(input: KeyJudgement): KeyVerdict {
  if (input.autoreject) return rejected('store-rejected');
  return input.autosign ? accept('store-accepted') : pend('store-pending');
}

function judgePending(input: KeyJudgement, pending: string): KeyVerdict {
  if (input.autoreject) return rejected('pending-to-rejected');
  const same = isSame(pending, cleanKeyText(input.offered));
  if (input.autosign) {
    return same ? accept('pending-to-accepted') : refusal('denied', 'store-denied');
  }
  return same ? pend('none') : denied;
}

function isSame(stored: string | undefined, cleanOffered: string): boolean {
  return stored !== undefined && cleanKeyText(stored) === cleanOffered;
}

function accept(transition: KeyTransition): KeyVerdict {
  return { outcome: 'accept', ret: true, transition, event: { result: true, act: 'accept' } };
}

function pend(transition: KeyTransition): KeyVerdict {
  return { outcome: 'pend', ret: true, transition, event: { result: true, act: 'pend' } };
}

function rejected(transition: KeyTransition): KeyVerdict {
  return { outcome: 'reject', ret: false, transition, event: { result: false, act: 'reject' } };
}

const denied: KeyVerdict = {
  outcome: 'denied',
  ret: false,
  transition: 'store-denied',
  event: { result: false, act: 'denied' },
};

/** The refusals whose event has no `act`. */
function refusal(outcome: 'denied' | 'refuse', transition: KeyTransition): KeyVerdict {
  return { outcome, ret: false, transition, event: { result: false } };
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
  return packWire({ enc: 'clear', load, sig: sign(masterKey, load, context.sigAlgo) });
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
 * @throws ProtocolError ERR_BAD_KEY when the offered key is unusable: refuse with `false`
 */
export function buildAccepted(request: AuthRequest, material: AuthMaterial): Buffer {
  const minionKey = parsePublicKey(request.pub);
  const seal = (bytes: Uint8Array) => encrypt(minionKey, bytes, request.encAlgo);
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
    const plain = decrypt(masterPrivate, token, request.encAlgo);
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
  return `${sign(signPrivate, text, algorithm).toString('base64')}\n`;
}
