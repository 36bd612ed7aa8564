/** Public interface of `minion-protocol/`: the wire protocol between Salt masters and minions. */

export type { AuthReplyContext, AuthRequest } from './auth-reply.ts';
export {
  type CrypticleKey,
  checkKeyString,
  crypticleMac,
  decryptPacked,
  decryptPackedInSlices,
  generateKeyString,
  openValue,
  parseKeyString,
  sealValue,
  verifyCrypticle,
  verifyCrypticleInSlices,
} from './crypt.ts';
export { ProtocolError } from './errors.ts';
export { formatEventStamp, packEvent, unpackEvent } from './event.ts';
export { isFunctionName, isKeywordText, keywordNameOf } from './function-call.ts';
export { findInterpretedText } from './interpreted-text.ts';
export { createJidSource, isJid, jidTime } from './jid.ts';
export {
  type MinionEventLoad,
  type PublicationLoad,
  parseMinionEventLoad,
  parsePillarLoad,
  parseReturnLoad,
  type ReturnLoad,
} from './loads.ts';
export { parseAuthRequest } from './master-handshake.ts';
export type { MinionFunction } from './minion/functions.ts';
export { createMinionKeys, type MinionKeys, openMinionKeys } from './minion/key-files.ts';
export { createMinion, type Minion } from './minion/minion.ts';
export {
  localField,
  type PackedTexts,
  packListHead,
  packLocal,
  packLocalWithin,
  packMapHead,
  packWire,
  packWireTexts,
  unpackAndCount,
  unpackLocal,
  unpackLocalAndCount,
  unpackLocalInSlices,
  unpackWire,
  unpackWireInSlices,
} from './payload.ts';
export { clearLimits, loadLimits, type PayloadLimits } from './payload-limits.ts';
export { endOfValue } from './payload-scanner.ts';
export { encodeProxyHeader, isRelayedAddress, relayedAddress } from './proxy-header.ts';
export { publicationEnvelope } from './publication.ts';
export { pythonStr, pythonStrInSlices, toPythonValue, unboundedStr } from './python-values.ts';
export { encodePackedReply, encodePackedReplyInSlices } from './reply.ts';
export {
  type CheckedRequest,
  type ClearEnvelope,
  checkLoad,
  decodeEnvelope,
  envelopeLimits,
  isNewMinionId,
  isValidMinionId,
  type ProtocolVersion,
  type RequestEnvelope,
  type SealedEnvelope,
} from './request.ts';
export {
  type EncryptionAlgorithm,
  isEncryptionAlgorithm,
  isSigningAlgorithm,
  rsaSign,
  rsaVerify,
  type SigningAlgorithm,
} from './rsa.ts';
export {
  cleanKeyText,
  generateKeyPair,
  type KeyPairText,
  keyFingerprint,
  parsePrivateKey,
  parsePublicKey,
} from './rsa-keys.ts';
export {
  type FactMap,
  type FactSource,
  factsOf,
  type MinionFacts,
  type MinionResources,
  traverseFacts,
} from './targeting/facts.ts';
export { findUndefinedGroup, NodegroupLoop, type Nodegroups } from './targeting/nodegroups.ts';
export {
  compileLinearPattern,
  compileLinearSearch,
  compilePattern,
  compileSearchPattern,
  compileWholePattern,
  type PatternCompiler,
} from './targeting/pattern.ts';
export {
  type CompiledTarget,
  compileTarget,
  compileTargetInSteps,
  type TargetCandidate,
  type TargetExpression,
} from './targeting/target.ts';
export {
  compileRightTarget,
  expandTargetRequest,
  readTargetRequest,
} from './targeting/target-request.ts';
export { targetTypeRows } from './targeting/target-types.ts';
export { encodePublicationFrame, TcpFrameDecoder } from './tcp-frames.ts';
export { awaitProxyHeader } from './transport/await-proxy-header.ts';
export {
  ConnectionGuard,
  type GuardedConnection,
  peerAddress,
} from './transport/connection-guard.ts';
export { createTcpListener } from './transport/tcp-listener.ts';
export type { TlsOptions } from './transport/tls.ts';
export { handshakeOptions, startHandshakesInTurns } from './transport/tls-handshakes.ts';
export {
  type BoundPorts,
  type MasterTransport,
  minionTopic,
  type OutgoingPublication,
  type Peer,
  type PublishOutcome,
  type RequestSlot,
} from './transport/transport.ts';
export { createWebsocketListener } from './transport/websocket-listener.ts';
export { dialZeromq } from './transport/zeromq-dialer.ts';
export { createZeromqListener, createZeromqRequestListener } from './transport/zeromq-listener.ts';
export { formatYaml } from './value-yaml.ts';
export {
  encodeWebsocketClose,
  encodeWebsocketFrame,
  OPCODE_PING,
  OPCODE_PONG,
  OPCODE_TEXT,
  WebsocketDecoder,
} from './websocket.ts';
export {
  constantCode,
  emptyWireMap,
  isWireMap,
  numberOf,
  plainNumber,
  plainNumbers,
  WireDateTime,
  WireExtension,
  type WireMap,
  type WireValue,
  wireBytes,
} from './wire-value.ts';
