/**
 * `saltbridge/minion-protocol`: the embedded minion, transports and targets, and the wire codecs
 * for tests and tools.
 *
 * @packageDocumentation
 */

export {
  compileTarget,
  createMinion,
  createMinionKeys,
  createTcpListener,
  createWebsocketListener,
  createZeromqListener,
  dialZeromq,
  generateKeyPair,
  keyFingerprint,
  type MasterTransport,
  type Minion,
  type MinionFunction,
  type MinionKeys,
  openMinionKeys,
  openValue,
  ProtocolError,
  packEvent,
  packWire,
  parseKeyString,
  sealValue,
  unpackEvent,
  unpackWire,
  WireDateTime,
  WireExtension,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
export type { ProtocolErrorCode } from '#minion-protocol/errors.ts';
export type { CallArguments, FunctionContext } from '#minion-protocol/minion/functions.ts';
export type { MinionOptions, MinionState } from '#minion-protocol/minion/minion.ts';
export {
  createMemoryTransport,
  type MemoryTransport,
} from '#minion-protocol/transport/memory-transport.ts';
export {
  type MinionTransport,
  TransportError,
  type TransportErrorCode,
} from '#minion-protocol/transport/transport.ts';
export type { ZeromqDialerOptions } from '#minion-protocol/transport/zeromq-dialer.ts';
export { Float } from '#template/python/values.ts';
