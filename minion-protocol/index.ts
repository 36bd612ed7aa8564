/** The wire between Salt masters and minions: what other rooms and other programs may use. */

export { compileGlob } from '../python/fnmatch.ts';
export {
  type AuthMaterial,
  type AuthReplyContext,
  type AuthRequest,
  aesKeyDigest,
  aesKeySignature,
  badAlgorithmReply,
  buildAccepted,
  buildRefusal,
  masterPubkeySignature,
} from './auth-reply.ts';
export {
  type CrypticleKey,
  checkKeyString,
  crypticleMac,
  generateKeyString,
  type OpenValueOptions,
  openCrypticle,
  openPacked,
  openValue,
  parseKeyString,
  type SealValueOptions,
  SerialGuard,
  sealCrypticle,
  sealValue,
} from './crypticle.ts';
export {
  ProtocolError,
  type ProtocolErrorCode,
  type ProtocolErrorEntry,
  type ProtocolErrorOptions,
  protocolErrors,
} from './errors.ts';
export { type BusEvent, formatEventStamp, packEvent, unpackEvent } from './event.ts';
export {
  type AuthLoad,
  type MinionEventLoad,
  type ParsedLoad,
  type PillarLoad,
  type PublicationLoad,
  parseAuthLoad,
  parseMinionEventLoad,
  parsePillarLoad,
  parseReturnLoad,
  type RequestedEvent,
  type ReturnLoad,
} from './loads.ts';
export {
  decideKey,
  type KeyDecision,
  type KeyDecisionInput,
  type KeyTransition,
  type ParsedAuthRequest,
  parseAuthRequest,
} from './master-handshake.ts';
export type { CallArguments, FunctionContext, MinionFunction } from './minion/jobs.ts';
export { createMinionKeys, type MinionKeys, openMinionKeys } from './minion/key-files.ts';
export {
  createMinion,
  type Minion,
  type MinionOptions,
  type MinionState,
} from './minion/minion.ts';
export {
  createMinionHandshake,
  type HandshakeStep,
  type MinionHandshake,
  type MinionHandshakeConfig,
} from './minion-handshake.ts';
export {
  clearLimits,
  emptyWireMap,
  isPlainObject,
  isWireMap,
  loadLimits,
  type PayloadLimits,
  packLocal,
  packWire,
  unpackLocal,
  unpackRaw,
  unpackWire,
  WireDateTime,
  WireExtension,
  type WireMap,
  type WireValue,
  wireBytes,
} from './payload.ts';
export {
  buildPublication,
  createJidSource,
  isJid,
  jidTime,
  type OpenPublicationOptions,
  openPublication,
  type PublicationOptions,
  publicationEnvelope,
  sealPublication,
} from './publication.ts';
export { type PythonForms, pythonStr, toPythonValue, unboundedStr } from './python-values.ts';
export {
  type CheckedLoad,
  type CheckedRequest,
  type ClearEnvelope,
  type ClearRequest,
  checkLoad,
  type DecodedEnvelope,
  decodeEnvelope,
  encodeClearReply,
  encodePackedReply,
  encodePrivateReply,
  encodeRequest,
  encodeSendReply,
  envelopeLimits,
  type FileChunk,
  isNewMinionId,
  isNonce,
  isValidMinionId,
  type LoadCheckOptions,
  openPrivateReply,
  openSendReply,
  type PrivateReply,
  type PrivateReplyOptions,
  type ProtocolVersion,
  packFileChunk,
  type ReplyContext,
  type RequestEnvelope,
  type RequestRefusal,
  type SealedEnvelope,
  type SealedRequest,
  type SendReplyOptions,
} from './request.ts';
export {
  cleanKeyText,
  defaultEncryptionAlgorithm,
  defaultSigningAlgorithm,
  type EncryptionAlgorithm,
  generateKeyPair,
  isEncryptionAlgorithm,
  isMinionToken,
  isSigningAlgorithm,
  type KeyPairText,
  keyFingerprint,
  minionToken,
  parsePrivateKey,
  parsePublicKey,
  rsaDecrypt,
  rsaEncrypt,
  rsaSign,
  rsaVerify,
  type SigningAlgorithm,
  x931Recover,
  x931Sign,
} from './rsa.ts';
export {
  expandCompound,
  expandNodegroup,
  findNodegroupLoop,
  type MatchResult,
  type Nodegroups,
  splitTargetWords,
} from './targeting/compound.ts';
export {
  type FactMap,
  type FactSource,
  factsOf,
  type MinionFacts,
  type MinionResources,
  traverseFacts,
} from './targeting/facts.ts';
export {
  type CompiledPattern,
  compileLinearPattern,
  compilePattern,
  compileSearchPattern,
  compileWholePattern,
  type PatternCompiler,
  type TextMatcher,
} from './targeting/pattern.ts';
export {
  type CompiledTarget,
  type CompileTargetOptions,
  compileTarget,
  isTargetType,
  type TargetCandidate,
  type TargetExpression,
  type TargetTerm,
  type TargetType,
} from './targeting/target.ts';
export {
  createMemoryTransport,
  type MemoryTransport,
  type MemoryTransportOptions,
} from './transport/memory-transport.ts';
export { createTcpListener, type TcpListenerOptions } from './transport/tcp-listener.ts';
export type { ClientCertificates, TlsOptions } from './transport/tls.ts';
export {
  type AnnouncementHandler,
  type BoundPorts,
  type MasterTransport,
  type MinionTransport,
  minionTopic,
  type OutgoingPublication,
  type Peer,
  type PublishOutcome,
  type RequestHandler,
  type RequestSlot,
  type SubscriberInfo,
  TransportError,
  type TransportErrorCode,
  type TransportErrorEntry,
  transportErrors,
} from './transport/transport.ts';
export {
  createWebsocketListener,
  type WebsocketListenerOptions,
} from './transport/websocket-listener.ts';
export { dialZeromq, type ZeromqDialerOptions } from './transport/zeromq-dialer.ts';
export { createZeromqListener, type ZeromqListenerOptions } from './transport/zeromq-listener.ts';
export {
  encodeWebsocketClose,
  encodeWebsocketHeader,
  OPCODE_PING,
  OPCODE_PONG,
  OPCODE_TEXT,
  WebsocketDecoder,
  type WebsocketEvent,
} from './websocket.ts';
