/**
 * The RSA half of the protocol as a door of its own: no schemas, no transports, so that a worker
 * thread has it loaded in a fraction of the time that `index.ts` takes.
 */
export {
  type AuthMaterial,
  type AuthReplyContext,
  type AuthRequest,
  aesKeySignature,
  buildAccepted,
  buildRefusal,
  masterPubkeySignature,
} from './auth-reply.ts';
export { ProtocolError } from './errors.ts';
export { encodePrivateReply, type PrivateReply } from './reply.ts';
export { rsaSign, type SigningAlgorithm } from './rsa.ts';
export { parsePublicKey } from './rsa-keys.ts';
export { isSignedLoad } from './signed-load.ts';
export { isMinionToken } from './x931.ts';
