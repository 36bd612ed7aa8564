import { type KeyObject, randomBytes } from 'node:crypto';
import {
  type CrypticleKey,
  ProtocolError,
  parseKeyString,
  parsePublicKey,
  unpackWire,
  type WireMap,
} from '#minion-protocol';
import { encodeRequest } from '#minion-protocol/encode-request.ts';
import { createMinionHandshake, type HandshakeStep } from '#minion-protocol/minion-handshake.ts';
import { openSendReply } from '#minion-protocol/reply.ts';
import type { SwarmKey } from '../swarm/keys.ts';
import type { Answer } from './tally.ts';

/** Keys that a minion shares with its master after a sign-in. */
export interface Session {
  readonly publishKey: CrypticleKey;
  readonly requestKey: CrypticleKey;
  readonly masterPem: string;
  readonly masterPublic: KeyObject;
}

/** An encrypted request, with the data that is needed to check the reply. */
export interface SealedRequest {
  readonly bytes: Uint8Array;
  readonly judge: (reply: Uint8Array) => Answer;
}

/**
 * Signs in once.
 * @returns `undefined` if the key waits for acceptance, or if the sign-in must be repeated
 */
export async function trySignIn(
  id: string,
  key: SwarmKey,
  masterPem: string | undefined,
  ask: (request: Uint8Array, judge: SealedRequest['judge']) => Promise<Uint8Array>,
): Promise<Session | undefined> {
  const handshake = createMinionHandshake({
    id,
    version: 3,
    privateKey: key.privateKey,
    publicPem: key.publicPem,
    token: key.token,
    ...(masterPem === undefined ? {} : { masterPub: masterPem }),
  });
  let step: HandshakeStep | undefined;
  await ask(handshake.request(), (reply) => {
    if (isRefusal(reply)) return 'refused';
    step = handshake.step(reply);
    return step.state === 'accepted' || step.state === 'pending' ? 'good' : 'wrong';
  });
  return step?.state === 'accepted' ? sessionOf(step) : undefined;
}

/** Encrypts a request. The reply must have the right HMAC and nonce. */
export function sealRequest(
  id: string,
  key: SwarmKey,
  session: Session,
  load: WireMap,
): SealedRequest {
  const nonce = randomBytes(16).toString('hex');
  const bytes = encodeRequest({
    enc: 'aes',
    version: 3,
    key: session.requestKey,
    load,
    nonce,
    identity: { id, ts: Math.floor(Date.now() / 1000), tok: key.proof },
  });
  return { bytes, judge: (reply) => judgeReply(reply, session, nonce) };
}

function sessionOf(step: Extract<HandshakeStep, { state: 'accepted' }>): Session {
  const publishKey = parseKeyString(step.aes);
  return {
    publishKey,
    requestKey: step.session === undefined ? publishKey : parseKeyString(step.session),
    masterPem: step.masterPub,
    masterPublic: parsePublicKey(step.masterPub),
  };
}

function judgeReply(reply: Uint8Array, session: Session, nonce: string): Answer {
  if (isRefusal(reply)) return 'refused';
  try {
    openSendReply(reply, { version: 3, nonce, key: session.requestKey });
    return 'good';
  } catch (error) {
    if (error instanceof ProtocolError) return 'wrong';
    throw error;
  }
}

/** Whether a reply is `bad load`, the only unencrypted reply to a request of an accepted minion. */
function isRefusal(reply: Uint8Array): boolean {
  return reply.length < 32 && unpackWire(reply) === 'bad load';
}
