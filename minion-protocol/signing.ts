/**
 * The RSA part of the protocol as a separate entry point. It loads no schemas or transports, so a
 * worker thread starts in a fraction of the time that `index.ts` takes.
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
