/** The wire between Salt masters and minions: what other rooms and other programs may use. */

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
  generateKeyString,
  macOf,
  type OpenOptions,
  open,
  openPacked,
  openValue,
  parseKeyString,
  type SealOptions,
  SerialGuard,
  seal,
  sealValue,
} from './crypticle.ts';
export {
  type CheckedLoad,
  type CheckedRequest,
  type ClearEnvelope,
  type ClearRequest,
  checkLoad,
  type DecodedEnvelope,
  decodeEnvelope,
  type Envelope,
  encodeRequest,
  envelopeLimits,
  isNewMinionId,
  isNonce,
  isValidMinionId,
  type LoadCheckOptions,
  type ProtocolVersion,
  type Refusal,
  type SealedEnvelope,
  type SealedRequest,
} from './envelope.ts';
export {
  ProtocolError,
  type ProtocolErrorCode,
  type ProtocolErrorEntry,
  type ProtocolErrorOptions,
  protocolErrors,
} from './errors.ts';
export { type BusEvent, packEvent, stamp, unpackEvent } from './event.ts';
export { type FileChunk, packFileChunk } from './file-chunk.ts';
export { compileGlob } from './glob.ts';
export {
  judgeKey,
  type KeyJudgement,
  type KeyTransition,
  type KeyVerdict,
  type ParsedAuthRequest,
  parseAuthRequest,
} from './handshake.ts';
export { createJidSource, isJid, jidTime } from './jid.ts';
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
export type { CallArguments, FunctionContext, MinionFunction } from './minion/functions.ts';
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
  loadLimits,
  type PayloadLimits,
  packLocal,
  packWire,
  unpackLocal,
  unpackRaw,
  unpackWire,
} from './payload.ts';
export {
  buildPublication,
  type OpenPublicationOptions,
  openPublication,
  type PublicationOptions,
  publicationEnvelope,
  sealPublication,
} from './publication.ts';
export {
  encodeClearReply,
  encodePackedReply,
  encodePrivateReply,
  encodeSendReply,
  openPrivateReply,
  openSendReply,
  type PrivateReply,
  type PrivateReplyOptions,
  type ReplyContext,
  type SendReplyOptions,
} from './reply.ts';
export {
  decrypt,
  defaultEncryptionAlgorithm,
  defaultSigningAlgorithm,
  type EncryptionAlgorithm,
  encrypt,
  isEncryptionAlgorithm,
  isSigningAlgorithm,
  type SigningAlgorithm,
  sign,
  verify,
} from './rsa.ts';
export {
  cleanKeyText,
  fingerprint,
  generateKeyPair,
  type KeyPairText,
  parsePrivateKey,
  parsePublicKey,
} from './rsa-key.ts';
export { splitWords, type Verdict } from './targeting/compound.ts';
export {
  type FactMap,
  type FactSource,
  factsOf,
  type MinionFacts,
  type Resources,
  traverse,
} from './targeting/facts.ts';
export {
  expandCompound,
  expandNodegroup,
  findNodegroupLoop,
  type Nodegroups,
} from './targeting/nodegroups.ts';
export {
  type CompiledPattern,
  compileLinearPattern,
  compilePattern,
  compileSearch,
  compileWholePattern,
  type PatternCompiler,
  type TextTest,
} from './targeting/pattern.ts';
export { pythonStr } from './targeting/python-str.ts';
export {
  type Candidate,
  type CompiledTarget,
  type CompileOptions,
  compileTarget,
  isTargetType,
  type TargetExpression,
  type TargetTerm,
  type TargetType,
} from './targeting/target.ts';
export {
  TransportError,
  type TransportErrorCode,
  type TransportErrorEntry,
  transportErrors,
} from './transport/errors.ts';
export {
  createMemoryTransport,
  type MemoryTransport,
  type MemoryTransportOptions,
} from './transport/memory.ts';
export { createTcpListener, type TcpListenerOptions } from './transport/tcp-listener.ts';
export type { ClientCertificates, TlsOptions } from './transport/tls.ts';
export { minionTopic } from './transport/topics.ts';
export type {
  AnnouncementHandler,
  BoundPorts,
  MasterTransport,
  MinionTransport,
  OutgoingPublication,
  Peer,
  PublishOutcome,
  RequestHandler,
  Subscriber,
  Turn,
} from './transport/transport.ts';
export {
  createWebsocketListener,
  type WebsocketListenerOptions,
} from './transport/websocket-listener.ts';
export { dialZeromq, type ZeromqDialerOptions } from './transport/zeromq-dialer.ts';
export { createZeromqListener, type ZeromqListenerOptions } from './transport/zeromq-listener.ts';
export { WebsocketDecoder, type WebsocketEvent } from './websocket.ts';
export {
  encodeClose,
  encodeFrameHeader,
  OPCODE_PING,
  OPCODE_PONG,
  OPCODE_TEXT,
} from './websocket-frames.ts';
export {
  emptyWireMap,
  isPlainObject,
  isWireMap,
  WireDateTime,
  WireExtension,
  type WireMap,
  type WireValue,
  wireBytes,
} from './wire-value.ts';
export { isMinionToken, minionToken, x931Recover, x931Sign } from './x931.ts';
