/** The wire between Salt masters and minions: what other rooms and other programs may use. */

export { compileGlob } from '#template/python/fnmatch.ts';
export type { AuthReplyContext, AuthRequest } from './auth-reply.ts';
export {
  type CrypticleKey,
  checkKeyString,
  cleanKeyText,
  crypticleMac,
  type EncryptionAlgorithm,
  generateKeyPair,
  generateKeyString,
  isEncryptionAlgorithm,
  isSigningAlgorithm,
  type KeyPairText,
  keyFingerprint,
  openPacked,
  openValue,
  parseKeyString,
  parsePrivateKey,
  parsePublicKey,
  rsaSign,
  rsaVerify,
  type SigningAlgorithm,
  sealValue,
} from './crypt.ts';
export { ProtocolError, type ProtocolErrorCode } from './errors.ts';
export { formatEventStamp, packEvent, unpackEvent } from './event.ts';
export { isFunctionName, isKeywordText, keywordNameOf } from './function-call.ts';
export { decideKey, type KeyDecision, parseAuthRequest } from './master-handshake.ts';
export type { CallArguments, FunctionContext, MinionFunction } from './minion/jobs.ts';
export { createMinionKeys, type MinionKeys, openMinionKeys } from './minion/key-files.ts';
export {
  createMinion,
  type Minion,
  type MinionOptions,
  type MinionState,
} from './minion/minion.ts';
export {
  emptyWireMap,
  isPlainObject,
  isWireMap,
  loadLimits,
  localField,
  type PayloadLimits,
  packLocal,
  packWire,
  unpackLocal,
  unpackWire,
  WireDateTime,
  WireExtension,
  type WireMap,
  type WireValue,
  wireBytes,
} from './payload.ts';
export { encodeProxyHeader, isRelayedAddress, relayedAddress } from './proxy-header.ts';
export {
  createJidSource,
  isJid,
  jidTime,
  publicationEnvelope,
  sealPublication,
} from './publication.ts';
export { type PythonForms, pythonStr, toPythonValue, unboundedStr } from './python-values.ts';
export {
  type CheckedRequest,
  type ClearEnvelope,
  checkLoad,
  decodeEnvelope,
  encodeClearReply,
  encodePackedReply,
  encodeSendReply,
  envelopeLimits,
  isNewMinionId,
  isValidMinionId,
  type MinionEventLoad,
  type ProtocolVersion,
  type PublicationLoad,
  packFileChunk,
  parseMinionEventLoad,
  parsePillarLoad,
  parseReturnLoad,
  type RequestEnvelope,
  type ReturnLoad,
  type SealedEnvelope,
} from './request.ts';
export {
  type FactMap,
  type FactSource,
  factsOf,
  type MinionFacts,
  type MinionResources,
  traverseFacts,
} from './targeting/facts.ts';
export {
  compileLinearPattern,
  compilePattern,
  compileSearchPattern,
  compileWholePattern,
  type PatternCompiler,
} from './targeting/pattern.ts';
export {
  type CompiledTarget,
  type CompileTargetOptions,
  compileTarget,
  findNodegroupLoop,
  type Nodegroups,
  type TargetCandidate,
  type TargetExpression,
  type TargetTerm,
} from './targeting/target.ts';
export {
  compileRightTarget,
  expandTargetRequest,
  readTargetRequest,
} from './targeting/target-request.ts';
export { encodePublicationFrame, TcpFrameDecoder } from './tcp-frames.ts';
export { awaitProxyHeader } from './transport/await-proxy-header.ts';
export {
  ConnectionGuard,
  type GuardedConnection,
  type GuardLimits,
  peerAddress,
} from './transport/connection-guard.ts';
export { createMemoryTransport, type MemoryTransport } from './transport/memory-transport.ts';
export { createTcpListener } from './transport/tcp-listener.ts';
export type { TlsOptions } from './transport/tls.ts';
export {
  type BoundPorts,
  type MasterTransport,
  type MinionTransport,
  minionTopic,
  type OutgoingPublication,
  type Peer,
  type PublishOutcome,
  type RequestSlot,
  TransportError,
  type TransportErrorCode,
} from './transport/transport.ts';
export { createWebsocketListener } from './transport/websocket-listener.ts';
export { dialZeromq, type ZeromqDialerOptions } from './transport/zeromq-dialer.ts';
export { createZeromqListener, createZeromqRequestListener } from './transport/zeromq-listener.ts';
export {
  encodeWebsocketClose,
  encodeWebsocketFrame,
  OPCODE_PING,
  OPCODE_PONG,
  OPCODE_TEXT,
  WebsocketDecoder,
  type WebsocketEvent,
} from './websocket.ts';
