/**
 * `saltbridge/minion-protocol`: the embedded minion, transports and targets, and the wire codecs
 * for tests and tools.
 *
 * @packageDocumentation
 */

export {
  type CallArguments,
  compileTarget,
  createMemoryTransport,
  createMinion,
  createMinionKeys,
  createTcpListener,
  createWebsocketListener,
  createZeromqListener,
  dialZeromq,
  type FunctionContext,
  generateKeyPair,
  keyFingerprint,
  type MasterTransport,
  type MemoryTransport,
  type Minion,
  type MinionFunction,
  type MinionKeys,
  type MinionOptions,
  type MinionState,
  type MinionTransport,
  openMinionKeys,
  openValue,
  ProtocolError,
  type ProtocolErrorCode,
  packEvent,
  packWire,
  parseKeyString,
  sealValue,
  TransportError,
  type TransportErrorCode,
  unpackEvent,
  unpackWire,
  WireDateTime,
  WireExtension,
  type WireMap,
  type WireValue,
  type ZeromqDialerOptions,
} from '#minion-protocol';
export { Float } from '#template/python/values.ts';
